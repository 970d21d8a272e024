package slmdb_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"slmdb"
)

// threads counts the threads of this process that are a store's.
func threads(t *testing.T) int {
	t.Helper()
	names, err := filepath.Glob("/proc/self/task/*/comm")
	must(t, err)
	count := 0
	for _, name := range names {
		// One may have ended meanwhile.
		if text, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(text), "slmdb-") {
			count++
		}
	}
	return count
}

// memoryBudgetBytes returns the budget that a store has.
func memoryBudgetBytes(t *testing.T, db *slmdb.DB) uint64 {
	t.Helper()
	report, err := db.Stats()
	must(t, err)
	var stats struct {
		MemoryBudgetBytes uint64 `json:"memory_budget_bytes"`
	}
	must(t, json.Unmarshal(report, &stats))
	return stats.MemoryBudgetBytes
}

func TestStoresThatShareTakeThreadsAndMemoryTogether(t *testing.T) {
	before := threads(t)
	shared, err := slmdb.NewShared(slmdb.SharedOptions{MemoryBudgetBytes: 32 << 20, Threads: 1, OpenTablesMax: 50})
	must(t, err)
	// The store's own budget does not count.
	options := slmdb.Options{Shared: shared, MemTableBytes: 1 << 20, MemoryBudgetBytes: 16 << 20}
	stores := make([]*slmdb.DB, 20)
	for number := range stores {
		stores[number], _ = open(t, &options)
	}
	if after := threads(t); after-before >= len(stores) {
		t.Fatal(after, "threads,", before, "before")
	}
	// They keep it.
	must(t, shared.Close())
	for number, db := range stores {
		if bytes := memoryBudgetBytes(t, db); bytes != 32<<20 {
			t.Fatal(bytes)
		}
		must(t, db.Put([]byte("k"), []byte(strconv.Itoa(number))))
		must(t, db.Flush())
	}
	must(t, stores[0].Close())
	for number, db := range stores[1:] {
		holds(t, db.Get, "k", strconv.Itoa(number+1))
	}
}

func TestSharedHasDefaults(t *testing.T) {
	shared, err := slmdb.NewShared(slmdb.SharedOptions{})
	must(t, err)
	defer shared.Close()
	db, _ := open(t, &slmdb.Options{Shared: shared})
	if bytes := memoryBudgetBytes(t, db); bytes != 256<<20 {
		t.Fatal(bytes)
	}
	if _, err := slmdb.NewShared(slmdb.SharedOptions{Threads: 5}); !errors.Is(err, slmdb.ErrInvalid) {
		t.Fatal(err)
	}
}

func TestSharedIsClosedBesideOpenings(t *testing.T) {
	shared, err := slmdb.NewShared(slmdb.SharedOptions{})
	must(t, err)
	directory := t.TempDir()
	openOne := func(number int) error {
		options := slmdb.Options{Shared: shared, MemTableBytes: 1 << 20}
		db, err := slmdb.Open(filepath.Join(directory, strconv.Itoa(number)), &options)
		if err != nil {
			return err
		}
		return errors.Join(db.Put([]byte("k"), []byte("v")), db.Close())
	}
	must(t, openOne(0))
	var openers sync.WaitGroup
	for number := range 4 {
		openers.Add(1)
		go func() {
			defer openers.Done()
			for {
				if err := openOne(number); err != nil {
					if !errors.Is(err, slmdb.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		}()
	}
	must(t, shared.Close())
	must(t, shared.Close())
	openers.Wait()
}
