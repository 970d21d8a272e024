package slmdb

// #cgo pkg-config: slmdb
// #include <stdlib.h>
// #include <slmdb/c.h>
import "C"

import (
	"runtime"
	"unsafe"
)

// DB is an open store. Any number of goroutines may use it at once.
type DB struct {
	handle *C.slmdb_t
}

// Open opens the store in a directory, and makes it if it is missing. Nil options are the defaults.
//
// It fails with [ErrLocked], [ErrInvalid], [ErrCorruption] or [ErrUnsupported], and with [ErrClosed] if the options have a
// [Shared] that is closed.
func Open(directory string, options *Options) (*DB, error) {
	forC, err := options.forC()
	if err != nil {
		return nil, err
	}
	defer C.slmdb_options_destroy(forC)
	path := C.CString(directory)
	defer C.free(unsafe.Pointer(path))
	var handle *C.slmdb_t
	var message *C.char
	if err := failed(C.slmdb_open(path, forC, &handle, &message), &message); err != nil {
		return nil, err
	}
	db := &DB{handle}
	// Close leaves the handle, so that a call after it is an error. Its memory goes with the DB.
	runtime.AddCleanup(db, func(handle *C.slmdb_t) { C.slmdb_release(handle) }, handle)
	return db, nil
}

// Close closes the store. It waits for calls of other goroutines. A second Close returns [ErrClosed].
//
// Close iterators and snapshots before: as long as they are open, nobody else can open the store.
func (db *DB) Close() error {
	defer runtime.KeepAlive(db)
	var message *C.char
	return failed(C.slmdb_close(db.handle, &message), &message)
}

// c returns bytes in C's form: nil is a null pointer, and no bytes are not. They must live as long as the call.
func c(bytes []byte) (*C.char, C.size_t) {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(bytes))), C.size_t(len(bytes))
}

// goBytes copies a value and frees it. The value of a key that has none is [ErrNotFound].
func goBytes(value *C.char, length C.size_t) ([]byte, error) {
	if value == nil {
		return nil, ErrNotFound
	}
	defer C.slmdb_free(unsafe.Pointer(value))
	bytes := make([]byte, int(length))
	copy(bytes, unsafe.Slice((*byte)(unsafe.Pointer(value)), int(length)))
	return bytes, nil
}

// Get returns the value of a key, or [ErrNotFound].
func (db *DB) Get(key []byte) ([]byte, error) {
	defer runtime.KeepAlive(db)
	var value, message *C.char
	var length C.size_t
	start, size := c(key)
	if err := failed(C.slmdb_get(db.handle, start, size, &value, &length, &message), &message); err != nil {
		return nil, err
	}
	return goBytes(value, length)
}

// Has tells whether a key has a value. It reads no file.
func (db *DB) Has(key []byte) (bool, error) {
	defer runtime.KeepAlive(db)
	var has C.bool
	var message *C.char
	start, size := c(key)
	err := failed(C.slmdb_contains_key(db.handle, start, size, &has, &message), &message)
	return bool(has), err
}

// Put sets the value of a key.
//
// It fails with [ErrInvalid] for a key of more than 65,535 bytes or a value of more than 256 MiB, with [ErrFull] or
// [ErrReadOnly].
func (db *DB) Put(key, value []byte, durability ...Durability) error {
	defer runtime.KeepAlive(db)
	var message *C.char
	keyStart, keySize := c(key)
	start, size := c(value)
	return failed(C.slmdb_put(db.handle, keyStart, keySize, start, size, last(durability), &message), &message)
}

// Delete removes a key. It is no error if it has no value.
func (db *DB) Delete(key []byte, durability ...Durability) error {
	defer runtime.KeepAlive(db)
	var message *C.char
	start, size := c(key)
	return failed(C.slmdb_delete(db.handle, start, size, last(durability), &message), &message)
}

// DeleteRange removes all keys from `from` on and before `to`, at one moment. Nil is no bound. It takes the same time
// whatever the range holds.
func (db *DB) DeleteRange(from, to []byte, durability ...Durability) error {
	defer runtime.KeepAlive(db)
	var message *C.char
	fromStart, fromSize := c(from)
	start, size := c(to)
	return failed(C.slmdb_delete_range(db.handle, fromStart, fromSize, start, size, last(durability), &message), &message)
}

// InsertIfAbsent sets the value of a key if it has none, and tells whether it did. Of any number of goroutines that do
// it at once exactly one is told true.
func (db *DB) InsertIfAbsent(key, value []byte, durability ...Durability) (bool, error) {
	defer runtime.KeepAlive(db)
	var wasSet C.bool
	var message *C.char
	keyStart, keySize := c(key)
	start, size := c(value)
	code := C.slmdb_insert_if_absent(db.handle, keyStart, keySize, start, size, last(durability), &wasSet, &message)
	return bool(wasSet), failed(code, &message)
}

// UpdateIfPresent sets the value of a key if it has one already, and tells whether it did.
func (db *DB) UpdateIfPresent(key, value []byte, durability ...Durability) (bool, error) {
	defer runtime.KeepAlive(db)
	var wasSet C.bool
	var message *C.char
	keyStart, keySize := c(key)
	start, size := c(value)
	code := C.slmdb_update_if_present(db.handle, keyStart, keySize, start, size, last(durability), &wasSet, &message)
	return bool(wasSet), failed(code, &message)
}

// Write applies a batch: all of it or nothing.
func (db *DB) Write(batch *Batch, durability ...Durability) error {
	defer runtime.KeepAlive(db)
	defer runtime.KeepAlive(batch)
	var message *C.char
	return failed(C.slmdb_write(db.handle, batch.handle, last(durability), &message), &message)
}
