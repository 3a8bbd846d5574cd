package redisbloom

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"testing/iotest"

	bloom "github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/require"
)

// mixed has a key of every kind: filters with something in them and without, and ones that are being loaded.
func mixed(t *testing.T) *Engine {
	e := New()
	fill(t, e)
	require.NoError(t, e.BFReserveNonScaling("bf:\x00full", 0.1, 3))
	for i := range 4 {
		e.BFAdd("bf:\x00full", strconv.Itoa(i))
	}
	require.NoError(t, e.BFReserveExpansion("", 0.001, 50, 4))
	require.NoError(t, e.CFReserveWithArgs("cf:empty", &CFReserveOptions{Capacity: 100, BucketSize: 3, MaxIterations: 7, Expansion: 4}))
	require.NoError(t, e.Set("s", "value"))
	require.NoError(t, e.Set("s:empty", ""))
	require.NoError(t, e.BFLoadChunk("loading:b", 1, pieces(t, e.BFScanDump, "b")[0].Data))
	for _, d := range pieces(t, e.CFScanDump, "c")[:2] {
		require.NoError(t, e.CFLoadChunk("loading:c", d.Iter, d.Data))
	}
	return e
}

func written(t *testing.T, e *Engine) []byte {
	var b bytes.Buffer
	n, err := e.WriteTo(&b)
	require.NoError(t, err)
	require.Equal(t, int64(b.Len()), n)
	return b.Bytes()
}

var missing = regexp.MustCompile(`bytes \d+ to \d+ have`)

// state is all that a client can see of an engine, but which bytes have not come.
func state(e *Engine) map[string]string {
	all := map[string]string{}
	for _, key := range e.Keys("*") {
		seen := ""
		for _, command := range [][]string{
			{"TYPE", key}, {"GET", key}, {"BF.INFO", key}, {"BF.DEBUG", key}, {"CF.INFO", key}, {"CF.DEBUG", key}, {"MEMORY", "USAGE", key},
			{"BF.SCANDUMP", key, "0"}, {"BF.SCANDUMP", key, "1"}, {"CF.SCANDUMP", key, "0"}, {"CF.SCANDUMP", key, "1"},
		} {
			seen += string(e.call(command...).Append(nil, 3))
		}
		all[key] = fmt.Sprintf("%.40q %x", missing.ReplaceAllString(seen, ""), sha256.Sum256([]byte(missing.ReplaceAllString(seen, ""))))
	}
	return all
}

func TestSaveAndLoad(t *testing.T) {
	e := mixed(t)
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, e.Save(path))
	loaded := New()
	require.NoError(t, loaded.Set("s:old", "gone"))
	require.NoError(t, loaded.Load(path))
	require.Equal(t, state(e), state(loaded))
	checkMemory(t, loaded)
	// Chunks of one that was being loaded are to be sent again; then it is complete.
	require.True(t, IsIncomplete(do(loaded, "CF.EXISTS loading:c 1").Err()))
	for _, d := range pieces(t, e.CFScanDump, "c")[1:] {
		require.NoError(t, loaded.CFLoadChunk("loading:c", d.Iter, d.Data))
	}
	require.Equal(t, pieces(t, e.CFScanDump, "c"), pieces(t, loaded.CFScanDump, "loading:c"))
	// What was loaded goes on as what was saved.
	for i := 650; i < 5000; i++ {
		for _, command := range []string{"BF.ADD b %d", "CF.ADD c %d", "CF.ADDNX cf:empty %d"} {
			command = fmt.Sprintf(command, i)
			require.Equal(t, resp(e, command), resp(loaded, command), "%s", command)
		}
	}
	require.NoError(t, e.Save(path)) // in the place of the other
	require.NoError(t, loaded.Load(path))
	require.Equal(t, state(e), state(loaded))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1)

	require.NoError(t, New().Save(path))
	require.NoError(t, loaded.Load(path))
	require.Zero(t, loaded.Len())
	require.ErrorIs(t, loaded.Load(path+".none"), os.ErrNotExist)
	require.Error(t, e.Save(filepath.Join(path, "not a directory")))
}

// Reload changes nothing, and loses nothing that is added meanwhile.
func TestReload(t *testing.T) {
	e := mixed(t)
	before := state(e)
	require.NoError(t, e.Reload())
	require.Equal(t, before, state(e))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 2000 {
			if _, err := e.BFAdd("b", fmt.Sprint("new", i)); err != nil {
				t.Error(err)
			}
		}
	}()
	for range 20 {
		require.NoError(t, e.Reload())
	}
	<-done
	for i := range 2000 {
		found, err := e.BFExists("b", fmt.Sprint("new", i))
		require.NoError(t, err)
		require.True(t, found)
	}
	checkMemory(t, e)
}

func TestReadFromOddReaders(t *testing.T) {
	data := written(t, mixed(t))
	for _, r := range []io.Reader{iotest.OneByteReader(bytes.NewReader(data)), iotest.HalfReader(bytes.NewReader(data)), iotest.DataErrReader(bytes.NewReader(data))} {
		e := New()
		n, err := e.ReadFrom(r)
		require.NoError(t, err)
		require.Equal(t, int64(len(data)), n)
		require.Equal(t, 9, e.Len())
	}
	broken := errors.New("broken")
	_, err := New().ReadFrom(io.MultiReader(bytes.NewReader(data[:500]), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
}

// Whatever is damaged is refused, and nothing of it is in the engine.
func TestDamagedSnapshots(t *testing.T) {
	data := written(t, mixed(t))
	e := New()
	require.NoError(t, e.Set("old", "value"))
	before := state(e)
	refused := func(data []byte, what string, args ...any) error {
		_, err := e.ReadFrom(bytes.NewReader(data))
		require.Error(t, err, what, args)
		require.Equal(t, 1, e.Len())
		return err
	}
	step := 1
	if testing.Short() {
		step = 37
	}
	for n := 0; n < len(data); n += step {
		require.ErrorIs(t, refused(data[:n], "cut at %d", n), bloom.ErrIncomplete)
	}
	for at := 0; at < len(data); at += step {
		bad := bytes.Clone(data)
		bad[at] ^= 0x10
		refused(bad, "flipped at %d", at)
	}
	require.ErrorIs(t, refused(append(bytes.Clone(data), 0), "one more byte"), bloom.ErrCorrupt)
	require.ErrorIs(t, refused(append(bytes.Clone(data), data...), "twice"), bloom.ErrCorrupt)
	require.ErrorIs(t, refused([]byte("REDIS0011..........."), "a dump.rdb"), bloom.ErrCorrupt)
	newer := bytes.Clone(data)
	newer[4] = 2
	require.ErrorIs(t, refused(newer, "a version"), bloom.ErrVersion)
	require.Equal(t, before, state(e))
	checkMemory(t, e)

	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, data[:len(data)-3], 0o600))
	err := e.Load(path)
	require.ErrorIs(t, err, bloom.ErrIncomplete)
	require.ErrorContains(t, err, path)
}

// forge is a snapshot of one record with right checksums.
func forge(kind byte, key string, valueSize uint64, value []byte, after []byte) []byte {
	data := []byte(snapshotMagic + "\x01\x00\x00\x00")
	head := append([]byte{kind, 0, 0, 0}, binary.LittleEndian.AppendUint32(nil, uint32(len(key)))...)
	head = binary.LittleEndian.AppendUint64(head, valueSize)
	head = append(append(head, key...), value...)
	head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(head, castagnoli))
	data = append(append(data, head...), after...)
	end := snapshotEnd(1)
	return append(data, end[:]...)
}

// Sizes are claims: little is allocated before their bytes are here.
func TestForgedSnapshots(t *testing.T) {
	record := func(w io.WriterTo) []byte {
		var b bytes.Buffer
		_, err := w.WriteTo(&b)
		require.NoError(t, err)
		return b.Bytes()
	}
	native := record(bloom.Must(bloom.NewScalable(10, 0.01)))
	redis := record(bloom.Must(bloom.NewScalable(10, 0.01, bloom.WithScheme(bloom.RedisBloom))))
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"a value past the limit":   {forge(recordString, "k", 1<<60, nil, nil), bloom.ErrTooLarge},
		"a value that is not here": {forge(recordString, "k", 1<<29, nil, nil), bloom.ErrIncomplete},
		"a key that is not here":   {[]byte(snapshotMagic + "\x01\x00\x00\x00\x01\x00\x00\x00\xff\xff\xff\x1f\x00\x00\x00\x00\x00\x00\x00\x00key"), bloom.ErrIncomplete},
		"a type of later":          {forge(77, "k", 0, nil, nil), bloom.ErrVersion},
		"a value with a filter":    {forge(recordBF, "k", 1, []byte("x"), redis), bloom.ErrCorrupt},
		"another scheme":           {forge(recordBF, "k", 0, nil, native), bloom.ErrMismatch},
		"another kind":             {forge(recordCF, "k", 0, nil, redis), bloom.ErrMismatch},
		"no filter":                {forge(recordBF, "k", 0, nil, nil), bloom.ErrIncomplete},
		"a bad header":             {forge(recordBFHeader, "k", 3, []byte("bad"), nil), bloom.ErrCorrupt},
		"a bad header of a cuckoo": {forge(recordCFHeader, "k", 3, []byte("bad"), nil), bloom.ErrCorrupt},
		"two keys of one name":     {append(forge(recordString, "k", 0, nil, nil)[:8+21], forge(recordString, "k", 0, nil, nil)[8:]...), bloom.ErrCorrupt},
		"a key less":               {append([]byte(snapshotMagic+"\x01\x00\x00\x00"), forge(recordString, "k", 0, nil, nil)[8+21:]...), bloom.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			e := New()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := e.ReadFrom(bytes.NewReader(c.data))
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, c.want)
			require.Zero(t, e.Len())
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
		})
	}
	e := New()
	_, err := e.ReadFrom(bytes.NewReader(forge(recordBF, "k", 0, nil, redis)))
	require.NoError(t, err)
	require.Equal(t, "+MBbloom--", resp(e, "TYPE k"))
}

// Keys that take more than the limit are refused before they do.
func TestLoadPastTheMemoryLimit(t *testing.T) {
	source := New()
	require.NoError(t, source.BFReserve("b", 0.001, 1_000_000))
	data := written(t, source)
	e := New()
	e.SetMaxMemory(1 << 20)
	require.NoError(t, e.Set("old", "value"))
	_, err := e.ReadFrom(bytes.NewReader(data))
	require.ErrorIs(t, err, bloom.ErrTooLarge)
	require.Equal(t, int64(1), e.Exists("old"))
	e.SetMaxMemory(0)
	_, err = e.ReadFrom(bytes.NewReader(data))
	require.NoError(t, err)
	checkMemory(t, e)
}

type failingWriter struct{ left int }

func (w *failingWriter) Write(b []byte) (int, error) {
	if len(b) > w.left {
		n := w.left
		w.left = 0
		return n, io.ErrShortWrite
	}
	w.left -= len(b)
	return len(b), nil
}

func TestWritersThatFail(t *testing.T) {
	e := mixed(t)
	size := len(written(t, e))
	for at := 0; at < size; at += 61 {
		n, err := e.WriteTo(&failingWriter{at})
		require.Error(t, err)
		require.Equal(t, int64(at), n)
	}
}

// Saving while others write: what is in the file is each key as it was at one moment.
func TestSaveWhileWriting(t *testing.T) {
	e := New()
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			key := strconv.Itoa(i % 50)
			e.BFAdd("b"+key, strconv.Itoa(i))
			e.CFAdd("c"+key, strconv.Itoa(i))
			if i%97 == 0 {
				e.Del("b"+key, "c"+key)
			}
		}
	}()
	for range 30 {
		loaded := New()
		_, err := loaded.ReadFrom(bytes.NewReader(written(t, e)))
		require.NoError(t, err)
		checkMemory(t, loaded)
	}
	close(stop)
	<-done
	checkMemory(t, e)
}
