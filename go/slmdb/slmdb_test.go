package slmdb_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"slmdb"
)

// open opens a store of this test, which is closed with it.
func open(t *testing.T, options *slmdb.Options) (*slmdb.DB, string) {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "db")
	db, err := slmdb.Open(directory, options)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db, directory
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// holds checks the value of a key; "-" is none.
func holds(t *testing.T, get func([]byte) ([]byte, error), key, expected string) {
	t.Helper()
	value, err := get([]byte(key))
	if errors.Is(err, slmdb.ErrNotFound) && expected == "-" {
		return
	}
	must(t, err)
	if string(value) != expected {
		t.Fatalf("%q has the value %q, not %q", key, value, expected)
	}
}

func TestReadsAndWrites(t *testing.T) {
	db, _ := open(t, nil)
	holds(t, db.Get, "a", "-")
	must(t, db.Put([]byte("a"), []byte("1")))
	must(t, db.Put([]byte("a"), nil, slmdb.Sync))
	holds(t, db.Get, "a", "")
	must(t, db.Put(nil, []byte("the empty key"), slmdb.NoSync))
	holds(t, db.Get, "", "the empty key")
	must(t, db.Delete(nil))
	holds(t, db.Get, "", "-")
	has, err := db.Has([]byte("a"))
	must(t, err)
	wasSet, err := db.InsertIfAbsent([]byte("a"), []byte("2"))
	must(t, err)
	updated, err := db.UpdateIfPresent([]byte("a"), []byte("3"))
	must(t, err)
	if !has || wasSet || !updated {
		t.Fatal(has, wasSet, updated)
	}
	holds(t, db.Get, "a", "3")

	batch := slmdb.NewBatch()
	must(t, batch.Put([]byte("b"), []byte("4")))
	must(t, batch.Delete([]byte("a")))
	if err := batch.Put(make([]byte, 70_000), nil); !errors.Is(err, slmdb.ErrInvalid) || batch.Len() != 2 {
		t.Fatal(err, batch.Len())
	}
	must(t, db.Write(batch))
	batch.Clear()
	must(t, db.Write(batch))
	holds(t, db.Get, "a", "-")
	holds(t, db.Get, "b", "4")
}

func TestRangesAreDeleted(t *testing.T) {
	db, _ := open(t, nil)
	for _, test := range []struct {
		from, to []byte
		left     string
	}{
		{[]byte("b"), []byte("d"), "ad"},
		{nil, []byte("c"), "cd"},
		{[]byte("bb"), nil, "ab"},
		{nil, nil, ""},
		{[]byte{}, nil, ""},
		{nil, []byte{}, "abcd"},
		{[]byte("d"), []byte("a"), "abcd"},
	} {
		batch := slmdb.NewBatch()
		must(t, batch.DeleteRange(test.from, test.to))
		for name, deleteRange := range map[string]func() error{
			"DB":    func() error { return db.DeleteRange(test.from, test.to, slmdb.NoSync) },
			"Batch": func() error { return db.Write(batch) },
		} {
			for _, key := range []string{"a", "b", "c", "d"} {
				must(t, db.Put([]byte(key), []byte("1")))
			}
			must(t, deleteRange())
			left := ""
			for entry, err := range db.Range(nil, nil) {
				must(t, err)
				left += string(entry.Key)
			}
			if left != test.left {
				t.Fatalf("%s: %q is left of %q to %q, not %q", name, left, test.from, test.to, test.left)
			}
		}
	}

	batch := slmdb.NewBatch()
	must(t, batch.Put([]byte("e"), []byte("1")))
	must(t, batch.DeleteRange([]byte("e"), nil))
	must(t, batch.Put([]byte("f"), []byte("2")))
	if err := batch.DeleteRange(nil, make([]byte, 70_000)); !errors.Is(err, slmdb.ErrInvalid) || batch.Len() != 3 {
		t.Fatal(err, batch.Len())
	}
	must(t, db.Write(batch, slmdb.Sync))
	holds(t, db.Get, "e", "-")
	holds(t, db.Get, "f", "2")
}

func TestErrorsTellTheirKind(t *testing.T) {
	db, directory := open(t, nil)
	_, err := slmdb.Open(directory, nil)
	var failure *slmdb.Error
	if !errors.Is(err, slmdb.ErrLocked) || !errors.As(err, &failure) || failure.Error() == "" {
		t.Fatal(err)
	}
	must(t, db.Close())
	for name, err := range map[string]error{
		"Close":       db.Close(),
		"Put":         db.Put([]byte("k"), []byte("v")),
		"Flush":       db.Flush(),
		"Delete":      db.Delete([]byte("k")),
		"DeleteRange": db.DeleteRange(nil, nil),
	} {
		if !errors.Is(err, slmdb.ErrClosed) {
			t.Fatal(name, err)
		}
	}
	if _, err := db.Get([]byte("k")); !errors.Is(err, slmdb.ErrClosed) {
		t.Fatal(err)
	}
	for _, options := range []slmdb.Options{
		{ErrorIfExists: true},
		{Engine: "rocksdb"},
		{MemTableBytes: 1},
		{Pool: "pool"},
		{Medium: 17},
	} {
		if _, err := slmdb.Open(directory, &options); !errors.Is(err, slmdb.ErrInvalid) {
			t.Fatal(options, err)
		}
	}
	if _, err := slmdb.Open(directory+"-missing", &slmdb.Options{ErrorIfMissing: true}); !errors.Is(err, slmdb.ErrInvalid) {
		t.Fatal(err)
	}
}

func TestOptions(t *testing.T) {
	directory := t.TempDir()
	options := slmdb.Options{
		Medium: slmdb.Emulated, Pool: filepath.Join(directory, "pool"), Engine: "slm", Sync: true,
		MemoryBudgetBytes: 32 << 20, MemTableBytes: 1 << 20, Uncompressed: true,
	}
	db, err := slmdb.Open(filepath.Join(directory, "db"), &options)
	must(t, err)
	must(t, db.Put([]byte("k"), []byte("v")))
	report, err := db.Stats()
	must(t, err)
	var stats struct {
		Medium              string `json:"medium"`
		MemoryBudgetBytes   uint64 `json:"memory_budget_bytes"`
		LastSequenceNumber  uint64 `json:"last_sequence_number"`
		FastTierBytes       uint64 `json:"fast_tier_bytes"`
		ReplacedRecordsKept uint64 `json:"replaced_records_kept"`
	}
	must(t, json.Unmarshal(report, &stats))
	if stats.Medium != "emulated" || stats.MemoryBudgetBytes != 32<<20 || stats.LastSequenceNumber != 1 {
		t.Fatalf("%+v", stats)
	}
	must(t, db.Close())
	readers, err := slmdb.Open(filepath.Join(directory, "db"), &slmdb.Options{ReadOnly: true})
	must(t, err)
	holds(t, readers.Get, "k", "v")
	if err := readers.Put([]byte("k"), nil); !errors.Is(err, slmdb.ErrReadOnly) {
		t.Fatal(err)
	}
	must(t, readers.Close())
}

func TestIteratorsAndSnapshotsSeeTheirMoment(t *testing.T) {
	db, _ := open(t, nil)
	for _, key := range []string{"a", "c", "e"} {
		must(t, db.Put([]byte(key), []byte("old")))
	}
	snapshot, err := db.Snapshot()
	must(t, err)
	iterator, err := snapshot.Iterator()
	must(t, err)
	defer iterator.Close()
	must(t, db.Put([]byte("c"), []byte("new")))
	must(t, db.Put([]byte("d"), []byte("new")))
	holds(t, snapshot.Get, "c", "old")
	holds(t, snapshot.Get, "d", "-")
	at := func(there bool, key string) {
		t.Helper()
		if there != (key != "") || string(iterator.Key()) != key || iterator.Valid() != there || iterator.Err() != nil {
			t.Fatalf("at %q: %v, %v", iterator.Key(), there, iterator.Err())
		}
		if there && string(iterator.Value()) != "old" {
			t.Fatalf("%q has the value %q", key, iterator.Value())
		}
	}
	at(false, "")
	at(iterator.First(), "a")
	at(iterator.Next(), "c")
	at(iterator.Last(), "e")
	at(iterator.Next(), "")
	at(iterator.Seek([]byte("d")), "e")
	at(iterator.SeekBefore([]byte("c")), "a")
	at(iterator.Prev(), "")

	keys := func(from, to []byte) (keys string) {
		for entry, err := range db.Range(from, to) {
			must(t, err)
			keys += string(entry.Key)
		}
		return keys
	}
	if keys(nil, nil) != "acde" || keys([]byte("b"), []byte("d")) != "c" || keys([]byte("f"), nil) != "" || keys(nil, []byte{}) != "" {
		t.Fatal(keys(nil, nil), keys([]byte("b"), []byte("d")))
	}
	count := 0
	for range snapshot.Range(nil, nil) {
		count++
	}
	if count != 3 {
		t.Fatal(count)
	}
	must(t, snapshot.Close())
	must(t, snapshot.Close())
	at(iterator.First(), "a")
	if _, err := snapshot.Get([]byte("a")); !errors.Is(err, slmdb.ErrClosed) {
		t.Fatal(err)
	}
	must(t, iterator.Close())
	must(t, iterator.Close())
	if iterator.First() || !errors.Is(iterator.Err(), slmdb.ErrClosed) {
		t.Fatal(iterator.Err())
	}
}

func TestMaintenance(t *testing.T) {
	db, directory := open(t, nil)
	must(t, db.Put([]byte("k"), bytes.Repeat([]byte("v"), 1000)))
	must(t, db.Sync())
	must(t, db.Flush())
	must(t, db.CompactRange(nil, nil))
	isClean, report, err := db.Verify()
	must(t, err)
	if !isClean {
		t.Fatal(string(report))
	}
	must(t, db.Checkpoint(directory+"-copy"))
	_, err = slmdb.Repair(directory+"-copy", nil)
	must(t, err)
	_, err = slmdb.Destroy(directory+"-copy", nil)
	must(t, err)
	if _, err := os.Stat(directory + "-copy"); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if _, err := slmdb.Destroy(directory, nil); !errors.Is(err, slmdb.ErrLocked) {
		t.Fatal(err)
	}
}

func TestGoroutinesAndAClose(t *testing.T) {
	db, directory := open(t, &slmdb.Options{MemTableBytes: 64 << 10})
	var inserted atomic.Int64
	var writers sync.WaitGroup
	for range 4 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for number := range 1000 {
				key := []byte(fmt.Sprintf("%08d", number))
				wasSet, err := db.InsertIfAbsent(key, key)
				if err != nil {
					t.Error(err)
					return
				}
				if wasSet {
					inserted.Add(1)
				}
			}
		}()
	}
	writers.Wait()
	if inserted.Load() != 1000 {
		t.Fatal(inserted.Load())
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for {
				value, err := db.Get([]byte("00000001"))
				if errors.Is(err, slmdb.ErrClosed) {
					return
				}
				if err != nil || string(value) != "00000001" {
					t.Error(string(value), err)
					return
				}
			}
		}()
	}
	must(t, db.Close())
	readers.Wait()
	again, err := slmdb.Open(directory, nil)
	must(t, err)
	holds(t, again.Get, "00000999", "00000999")
	must(t, again.Close())
}
