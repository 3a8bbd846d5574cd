package bloomd_test

import (
	"encoding/csv"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redbloom-go/bloom/bloomd"
	"github.com/redbloom-go/bloom/bloomd/bloomdtest"
	"github.com/stretchr/testify/require"
)

// BenchmarkAgainstRedis has redis-benchmark ask bloomd for items and the redis-server of this machine for bits, with
// the same settings and by turns, each in a process of its own. An operation is a round of both, begun by one and the
// other in turn; the figures are medians over rounds, and the ratio is that of each round, bloomd's requests a second
// by the other's:
//
//	go test -C bloomd -run '^$' -bench AgainstRedis -benchtime 31x -timeout 30m
func BenchmarkAgainstRedis(b *testing.B) {
	benchmark, redis, bloomd := program(b, "redis-benchmark"), startRedis(b), startBloomd(b)
	for _, addr := range []string{redis, bloomd} {
		conn, err := net.Dial("tcp", addr)
		require.NoError(b, err)
		conn.SetDeadline(time.Now().Add(patience))
		for _, command := range []string{"SETBIT bits 9585058 1", "BF.RESERVE bf 0.01 1000000"} {
			conn.Write([]byte(command + "\r\n")) // one of them is an error on each
			_, err = conn.Read(make([]byte, 100))
			require.NoError(b, err)
		}
		conn.Close()
	}
	rate := func(addr string, n int, settings, command string) float64 {
		_, port, _ := net.SplitHostPort(addr)
		args := []string{"-p", port, "--csv", "-n", strconv.Itoa(n)}
		args = append(args, strings.Fields(settings)...)
		rows, err := csv.NewReader(strings.NewReader(output(b, "", benchmark, append(args, strings.Fields(command)...)...))).ReadAll()
		require.NoError(b, err)
		rps, err := strconv.ParseFloat(rows[len(rows)-1][1], 64)
		require.NoError(b, err)
		return rps
	}
	for _, c := range []struct {
		settings string
		n        int
	}{{"-P 16 -c 1", 100_000}, {"-P 16 -c 10", 400_000}, {"-P 16 -c 50", 400_000}, {"-P 16 -c 200", 400_000}, {"-P 1 -c 50", 20_000}} {
		for _, commands := range [][2]string{{"GETBIT bits 1234567", "BF.EXISTS bf 1234567"}, {"SETBIT bits 1234567 1", "BF.ADD bf 1234567"}} {
			name := strings.ReplaceAll(strings.ReplaceAll(c.settings, "-", ""), " ", "")
			b.Run(name+"/"+strings.Fields(commands[1])[0], func(b *testing.B) {
				var theirs, ours, ratios []float64
				for b.Loop() {
					first := len(ratios) % 2
					for i := range 2 {
						if i == first {
							theirs = append(theirs, rate(redis, c.n, c.settings, commands[0]))
						} else {
							ours = append(ours, rate(bloomd, c.n, c.settings, commands[1]))
						}
					}
					ratios = append(ratios, ours[len(ours)-1]/theirs[len(theirs)-1])
				}
				b.ReportMetric(median(theirs), "redis-req/s")
				b.ReportMetric(median(ours), "bloomd-req/s")
				b.ReportMetric(median(ratios), "ratio")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkInProcess has a client in the process of the server ask for one item after the other.
func BenchmarkInProcess(b *testing.B) {
	for _, loops := range []int{0, 1} {
		b.Run("loops"+strconv.Itoa(loops), func(b *testing.B) {
			s := bloomdtest.Start(b, func(c *bloomd.Config) { c.Loops = loops })
			conn, err := net.Dial("tcp", s.Addr())
			require.NoError(b, err)
			defer conn.Close()
			command, reply := []byte(encode("BF.EXISTS", "b", "x")), make([]byte, len(":0\r\n"))
			for b.Loop() {
				conn.Write(command)
				if _, err := io.ReadFull(conn, reply); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// startBloomd builds the command and starts it.
func startBloomd(t testing.TB) (addr string) {
	binary := filepath.Join(t.TempDir(), "bloomd")
	output(t, "", "go", "build", "-o", binary, "./cmd/bloomd")
	return startProcess(t, func(port string) *exec.Cmd { return exec.Command(binary, "-addr", "127.0.0.1:"+port, "-quiet") })
}
