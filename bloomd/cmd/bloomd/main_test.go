package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redbloom-go/bloom/redisbloom"
	"github.com/stretchr/testify/require"
)

const patience = time.Minute

// log is what the command prints, for several goroutines.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var listening = regexp.MustCompile(`msg=listening addr=(\S+)`)

// addr waits for the server and returns where it listens.
func (l *log) addr(t *testing.T) string {
	require.Eventually(t, func() bool { return listening.MatchString(l.String()) }, patience, time.Millisecond, "%s", l)
	return listening.FindStringSubmatch(l.String())[1]
}

// started runs the command in this process.
func started(t *testing.T, args ...string) (l *log, stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	l = &log{}
	done := make(chan error, 1)
	go func() { done <- run(ctx, append([]string{"-addr", "127.0.0.1:0"}, args...), l) }()
	t.Cleanup(cancel)
	return l, func() error {
		cancel()
		return <-done
	}
}

func ask(t *testing.T, conn net.Conn, line string) string {
	conn.SetDeadline(time.Now().Add(patience))
	_, err := fmt.Fprintf(conn, "%s\r\n", line)
	require.NoError(t, err)
	answer, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(answer)
}

func dial(t *testing.T, addr string) net.Conn {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	l, stop := started(t, "-file", file, "-max-memory", "100mb", "-password", "secret")
	conn := dial(t, l.addr(t))
	require.Equal(t, "-NOAUTH Authentication required.", ask(t, conn, "PING"))
	require.Equal(t, "+OK", ask(t, conn, "AUTH secret"))
	require.Equal(t, ":1", ask(t, conn, "BF.ADD b x"))
	require.NoError(t, stop())
	require.Contains(t, l.String(), "maxmemory=104857600")
	require.Contains(t, l.String(), "msg=saved")

	t.Setenv("BLOOMD_PASSWORD", "other")
	l, stop = started(t, "-file", file)
	conn = dial(t, l.addr(t))
	require.Equal(t, "+OK", ask(t, conn, "AUTH other"))
	require.Equal(t, ":1", ask(t, conn, "BF.EXISTS b x"))
	require.Equal(t, ":1", ask(t, conn, "CF.ADD c x"))
	require.Equal(t, "+OK", ask(t, conn, "SHUTDOWN"))
	require.Eventually(t, func() bool { return strings.Contains(l.String(), "why=SHUTDOWN") }, patience, time.Millisecond)
	require.NoError(t, stop())

	e := redisbloom.New()
	require.NoError(t, e.Load(file))
	require.Equal(t, 2, e.Len())
	require.NoError(t, os.WriteFile(file, []byte("damaged, and long"), 0o600))
	l, stop = started(t, "-file", file)
	err := stop()
	require.ErrorContains(t, err, "loading keys: "+file)
	require.NotContains(t, l.String(), "listening")

	l, stop = started(t, "-addr", "0.0.0.0:0", "-password", "")
	l.addr(t)
	require.NoError(t, stop())
}

// Keys that cannot be saved are an error, also where clients had to be disconnected before.
func TestShutdownThatCannotSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	require.NoError(t, os.Mkdir(dir, 0o700))
	l, stop := started(t, "-file", filepath.Join(dir, "keys"), "-shutdown-timeout", "20ms")
	conn := dial(t, l.addr(t))
	conn.SetDeadline(time.Now().Add(patience))
	const size = 24 << 20 // more than the system keeps of a reply
	_, err := fmt.Fprintf(conn, "*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%d\r\n%s\r\nGET big\r\n", size, strings.Repeat("x", size))
	require.NoError(t, err)
	_, err = io.CopyN(io.Discard, conn, 1000) // and no more
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	require.ErrorIs(t, stop(), os.ErrNotExist)
}

func TestWarnsOfOpenAddress(t *testing.T) {
	l, stop := started(t, "-addr", "0.0.0.0:0")
	l.addr(t)
	require.NoError(t, stop())
	require.Contains(t, l.String(), "level=WARN msg=\"everyone who can reach this address")
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"-tls-cert x", "-tls-cert and -tls-key belong together"}, {"-tls-ca x", "-tls-ca needs -tls-cert and -tls-key"}, {"-save-interval 1m", "-save-interval needs -file"},
		{"-max-memory lots", `-max-memory "lots" is no size`}, {"extra", `unknown argument "extra"`}, {"-addr", "flag needs an argument"}, {"-foo", "flag provided but not defined"},
		{"-addr nowhere:x", "listen tcp"}, {"-tls-cert none -tls-key none", "open none"},
	} {
		err := run(context.Background(), strings.Fields(c.args), io.Discard)
		require.ErrorContains(t, err, c.want)
	}
	var help log
	require.ErrorIs(t, run(context.Background(), []string{"-h"}, &help), flag.ErrHelp)
	require.Contains(t, help.String(), "-max-memory limit")
}

// certificate writes one for 127.0.0.1 that is signed by itself.
func certificate(t *testing.T) (cert, key string) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	secret, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	cert, key = filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}

func TestTLS(t *testing.T) {
	cert, key := certificate(t)
	pool := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	require.NoError(t, err)
	require.True(t, pool.AppendCertsFromPEM(text))

	l, stop := started(t, "-tls-cert", cert, "-tls-key", key)
	addr := l.addr(t)
	conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool})
	require.NoError(t, err)
	require.Equal(t, "+PONG", ask(t, conn, "PING"))
	require.Equal(t, ":1", ask(t, conn, "BF.ADD b x"))
	conn.Close()
	require.NoError(t, stop())

	l, stop = started(t, "-tls-cert", cert, "-tls-key", key, "-command-timeout", "200ms")
	addr = l.addr(t)
	plain := dial(t, addr) // no TLS: closed, and so is one that says nothing
	plain.SetDeadline(time.Now().Add(patience))
	plain.Write([]byte("PING\r\n"))
	answer, _ := io.ReadAll(plain)
	require.NotContains(t, string(answer), "PONG")
	silent := dial(t, addr)
	silent.SetDeadline(time.Now().Add(patience))
	_, err = io.ReadAll(silent)
	require.NoError(t, err)
	require.NoError(t, stop())

	l, stop = started(t, "-tls-cert", cert, "-tls-key", key, "-tls-ca", cert)
	addr = l.addr(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	conn, err = tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}})
	require.NoError(t, err)
	require.Equal(t, "+PONG", ask(t, conn, "PING"))
	conn.Close()
	conn, err = tls.Dial("tcp", addr, &tls.Config{RootCAs: pool})
	if err == nil { // the server's refusal can come after the client's part of the handshake
		conn.SetDeadline(time.Now().Add(patience))
		conn.Write([]byte("PING\r\n"))
		_, err = bufio.NewReader(conn).ReadString('\n')
	}
	require.Error(t, err)
	require.NoError(t, stop())
	require.ErrorContains(t, run(context.Background(), []string{"-tls-cert", cert, "-tls-key", key, "-tls-ca", key}, io.Discard), "has no certificate")
}

func TestMemoryLimit(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	meminfo := write("meminfo", "MemTotal:        8000000 kB\nMemFree:         100 kB\n")
	require.Equal(t, uint64(8000000<<10/4*3), limitFrom(meminfo, filepath.Join(dir, "none")))
	require.Equal(t, uint64(750), limitFrom(meminfo, write("max", "1000\n"), write("none2", "max\n")))
	require.Equal(t, uint64(8000000<<10/4*3), limitFrom(meminfo, write("unlimited", "9223372036854771712\n")))
	require.Equal(t, uint64(redisbloom.DefaultMaxMemory), limitFrom(filepath.Join(dir, "none")))
	require.Equal(t, uint64(redisbloom.DefaultMaxMemory), limitFrom(write("bad", "MemTotal: x kB\n")))
	require.NotZero(t, memoryLimit())
}

// program builds the command and returns its path.
func program(t *testing.T) string {
	if testing.Short() {
		t.Skip("starts a program")
	}
	binary := filepath.Join(t.TempDir(), "bloomd")
	out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// A signal ends the program well, and after it has saved.
func TestSignal(t *testing.T) {
	binary, file := program(t), filepath.Join(t.TempDir(), "keys")
	var l log
	cmd := exec.Command(binary, "-addr", "127.0.0.1:0", "-file", file)
	cmd.Stderr = &l
	require.NoError(t, cmd.Start())
	require.Equal(t, ":1", ask(t, dial(t, l.addr(t)), "BF.ADD b x"))
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), "%s", &l)
	e := redisbloom.New()
	require.NoError(t, e.Load(file))
	require.Equal(t, 1, e.Len())

	require.NoError(t, os.WriteFile(file, []byte("damaged, and long"), 0o600))
	out, err := exec.Command(binary, "-addr", "127.0.0.1:0", "-file", file).CombinedOutput()
	require.ErrorContains(t, err, "exit status 1")
	require.Contains(t, string(out), "bloomd: loading keys: "+file+": bloom: corrupt data")
}

// A server that is killed while it saves leaves the file that was there, and whole.
func TestKillWhileSaving(t *testing.T) {
	binary, file := program(t), filepath.Join(t.TempDir(), "keys")
	e := redisbloom.New()
	for i := range 4 {
		require.NoError(t, e.BFReserve(fmt.Sprint("b", i), 0.001, 10_000_000)) // 19 MB each
	}
	require.NoError(t, e.Set("version", "0"))
	require.NoError(t, e.Save(file))
	killed := 0
	for round := range 6 {
		var l log
		cmd := exec.Command(binary, "-addr", "127.0.0.1:0", "-file", file)
		cmd.Stderr = &l
		require.NoError(t, cmd.Start())
		conn := dial(t, l.addr(t))
		require.Equal(t, "+OK", ask(t, conn, fmt.Sprint("SET version ", round+1)))
		conn.SetDeadline(time.Now().Add(patience))
		_, err := conn.Write([]byte("SAVE\r\n"))
		require.NoError(t, err)
		// Wait until it has begun, and a little more every time.
		require.Eventually(t, func() bool {
			temp, err := filepath.Glob(file + ".*.tmp")
			return err == nil && len(temp) > 0 || strings.Contains(l.String(), "msg=saved")
		}, patience, time.Millisecond)
		time.Sleep(time.Duration(round) * 10 * time.Millisecond)
		require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
		cmd.Wait()

		loaded := redisbloom.New()
		require.NoError(t, loaded.Load(file), "after %d", round)
		require.Equal(t, 5, loaded.Len())
		version, _, err := loaded.Get("version")
		require.NoError(t, err)
		temp, err := filepath.Glob(file + ".*.tmp")
		require.NoError(t, err)
		for _, path := range temp {
			killed++
			require.NoError(t, os.Remove(path))
			require.NotEqual(t, fmt.Sprint(round+1), version)
		}
	}
	if killed == 0 {
		t.Skip("every save had ended before the kill")
	}
	t.Log("killed while it wrote:", killed, "of 6")
}
