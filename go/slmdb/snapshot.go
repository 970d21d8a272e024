package slmdb

// #include <slmdb/c.h>
import "C"

import (
	"iter"
	"sync"
)

// Snapshot is a store as it was at one moment. Any number of goroutines may use it at once. Close it: until then nobody
// else can open the store.
type Snapshot struct {
	// Reads hold it, so that Close waits for them.
	lock   sync.RWMutex
	handle *C.slmdb_snapshot_t
}

// Snapshot returns the store as it is now.
func (db *DB) Snapshot() (*Snapshot, error) {
	var handle *C.slmdb_snapshot_t
	var message *C.char
	if err := failed(C.slmdb_snapshot_create(db.handle, &handle, &message), &message); err != nil {
		return nil, err
	}
	return &Snapshot{handle: handle}, nil
}

// Close gives the snapshot back. Its iterators stay. Closing it again does nothing.
func (snapshot *Snapshot) Close() error {
	snapshot.lock.Lock()
	defer snapshot.lock.Unlock()
	C.slmdb_snapshot_destroy(snapshot.handle)
	snapshot.handle = nil
	return nil
}

// Get returns the value that a key had, or [ErrNotFound]. After Close it returns [ErrClosed].
func (snapshot *Snapshot) Get(key []byte) ([]byte, error) {
	snapshot.lock.RLock()
	defer snapshot.lock.RUnlock()
	if snapshot.handle == nil {
		return nil, ErrClosed
	}
	var value, message *C.char
	var length C.size_t
	start, size := c(key)
	code := C.slmdb_snapshot_get(snapshot.handle, start, size, &value, &length, &message)
	if err := failed(code, &message); err != nil {
		return nil, err
	}
	return goBytes(value, length)
}

// Iterator returns an iterator over what the snapshot sees, on no entry yet.
func (snapshot *Snapshot) Iterator() (*Iterator, error) {
	snapshot.lock.RLock()
	defer snapshot.lock.RUnlock()
	if snapshot.handle == nil {
		return nil, ErrClosed
	}
	var cursor *C.slmdb_cursor_t
	var message *C.char
	if err := failed(C.slmdb_snapshot_cursor_create(snapshot.handle, &cursor, &message), &message); err != nil {
		return nil, err
	}
	return &Iterator{cursor: cursor}, nil
}

// Range returns the entries with keys from `from` on and before `to`, as [DB.Range] does.
func (snapshot *Snapshot) Range(from, to []byte) iter.Seq2[Entry, error] {
	return rangeOf(snapshot.Iterator, from, to)
}
