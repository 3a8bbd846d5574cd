package bloom

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSaveAndLoad(t *testing.T) {
	dir := t.TempDir()
	for _, w := range writtenFilters(t) {
		path := filepath.Join(dir, w.name)
		require.NoError(t, Save(path, w.filter))
		file, err := os.Open(path)
		require.NoError(t, err)
		got := fresh(w.filter)
		n, err := got.ReadFrom(file)
		require.NoError(t, err)
		require.EqualValues(t, len(encode(t, w.filter)), n)
		require.NoError(t, file.Close())
		requireSame(t, w.filter, got)
	}
	f, err := Load[Filter](filepath.Join(dir, "filter-murmur3"))
	require.NoError(t, err)
	require.True(t, f.ContainsUint64(99))
	_, err = Load[Counting](filepath.Join(dir, "filter-murmur3"))
	require.ErrorIs(t, err, ErrMismatch)
	require.ErrorContains(t, err, "filter-murmur3: ")
	_, err = Load[Filter](filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Len(t, names(t, dir), len(writtenFilters(t)), "no temporary file is left")
}

func names(t *testing.T, dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// failingFilter writes a part and fails.
type failingFilter struct{}

var errFailing = errors.New("failing")

func (failingFilter) WriteTo(w io.Writer) (int64, error) {
	n, _ := w.Write([]byte("half of a filter"))
	return int64(n), errFailing
}

type panickingFilter struct{}

func (panickingFilter) WriteTo(io.Writer) (int64, error) { panic("in the middle") }

// TestSaveReplacesWhole: the file holds a whole filter at every moment.
func TestSaveReplacesWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	f := Must(New(10_000, 0.01))
	f.AddString("old")
	require.NoError(t, Save(path, f))
	require.NoError(t, os.Chmod(path, 0o604))
	require.ErrorIs(t, Save(path, failingFilter{}), errFailing)
	require.Equal(t, []string{"f"}, names(t, dir))
	got, err := Load[Filter](path)
	require.NoError(t, err)
	require.True(t, f.Equal(got))

	done := make(chan error)
	go func() {
		var err error
		for i := uint64(0); i < 200 && err == nil; i++ {
			f.AddUint64(i)
			err = Save(path, f)
		}
		done <- err
	}()
	for saving := true; saving; {
		select {
		case err := <-done:
			require.NoError(t, err)
			saving = false
		default:
			if runtime.GOOS == "windows" {
				continue // a file that is open cannot be replaced there
			}
			got, err := Load[Filter](path)
			require.NoError(t, err)
			require.True(t, got.ContainsString("old"))
		}
	}
	if runtime.GOOS != "windows" {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.EqualValues(t, 0o604, info.Mode().Perm())
	}
	require.Error(t, Save(filepath.Join(dir, "no", "f"), f))
	require.ErrorIs(t, Save(dir, f), ErrInvalid)
	require.Panics(t, func() { Save(path, panickingFilter{}) })
	require.Equal(t, []string{"f"}, names(t, dir))

	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(data, 1), 0o666))
	_, err = Load[Filter](path)
	require.ErrorIs(t, err, ErrCorrupt)
}

// TestKilledWhileSaving kills a process that saves over and over; what it leaves can always be read.
func TestKilledWhileSaving(t *testing.T) {
	if path := os.Getenv("BLOOM_TEST_SAVE"); path != "" {
		f := Must(New(1_000_000, 0.01))
		f.AddString("old")
		for i := uint64(0); ; i++ {
			f.AddUint64(i)
			if err := Save(path, f); err != nil {
				panic(err)
			}
		}
	}
	if testing.Short() {
		t.Skip("starts programs")
	}
	path := filepath.Join(t.TempDir(), "f")
	f := Must(New(1000, 0.01))
	f.AddString("old")
	require.NoError(t, Save(path, f))
	saved := false
	for kills := 0; kills < 20 || !saved; kills++ {
		require.Less(t, kills, 200, "no child ever saved")
		child := exec.Command(os.Args[0], "-test.run=^TestKilledWhileSaving$")
		child.Env = append(os.Environ(), "BLOOM_TEST_SAVE="+path)
		require.NoError(t, child.Start())
		time.Sleep(time.Duration(20+3*kills) * time.Millisecond)
		require.NoError(t, child.Process.Kill())
		child.Wait() // killed
		f, err := Load[Filter](path)
		require.NoError(t, err)
		require.True(t, f.ContainsString("old"))
		saved = saved || f.ContainsUint64(0)
	}
}
