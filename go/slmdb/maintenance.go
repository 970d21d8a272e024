package slmdb

// #include <stdlib.h>
// #include <slmdb/c.h>
import "C"

import (
	"encoding/json"
	"runtime"
	"unsafe"
)

// Sync makes everything acknowledged so far survive a power cut.
func (db *DB) Sync() error {
	defer runtime.KeepAlive(db)
	var message *C.char
	return failed(C.slmdb_sync(db.handle, &message), &message)
}

// Flush brings everything acknowledged so far into table files. It is never needed for safety.
func (db *DB) Flush() error {
	defer runtime.KeepAlive(db)
	var message *C.char
	return failed(C.slmdb_flush(db.handle, &message), &message)
}

// CompactRange merges the table files with keys from `from` on and before `to`. Nil is no bound.
func (db *DB) CompactRange(from, to []byte) error {
	defer runtime.KeepAlive(db)
	var message *C.char
	fromStart, fromSize := c(from)
	start, size := c(to)
	return failed(C.slmdb_compact_range(db.handle, fromStart, fromSize, start, size, &message), &message)
}

// Checkpoint makes a copy of the store in a directory that is new or empty, while reads and writes go on.
func (db *DB) Checkpoint(directory string) error {
	defer runtime.KeepAlive(db)
	path := C.CString(directory)
	defer C.free(unsafe.Pointer(path))
	var message *C.char
	return failed(C.slmdb_checkpoint(db.handle, path, &message), &message)
}

// report makes a report of C a report of Go.
func report(code C.slmdb_code_t, text, message *C.char) (json.RawMessage, error) {
	if err := failed(code, &message); err != nil {
		return nil, err
	}
	defer C.slmdb_free(unsafe.Pointer(text))
	return json.RawMessage(C.GoString(text)), nil
}

// Stats returns what the store holds and has done: the fields of `slmdb stats --json`.
func (db *DB) Stats() (json.RawMessage, error) {
	defer runtime.KeepAlive(db)
	var text, message *C.char
	code := C.slmdb_stats(db.handle, &text, &message)
	return report(code, text, message)
}

// Verify checks everything against everything else, and tells whether all is well. The report's "findings" say what is
// not.
func (db *DB) Verify() (bool, json.RawMessage, error) {
	defer runtime.KeepAlive(db)
	var isClean C.bool
	var text, message *C.char
	code := C.slmdb_verify(db.handle, &isClean, &text, &message)
	found, err := report(code, text, message)
	return bool(isClean), found, err
}

// Repair makes a store that nobody has open whole again. The report's "losses" say what could not be saved.
func Repair(directory string, options *Options) (json.RawMessage, error) {
	forC, err := options.forC()
	if err != nil {
		return nil, err
	}
	defer C.slmdb_options_destroy(forC)
	path := C.CString(directory)
	defer C.free(unsafe.Pointer(path))
	var text, message *C.char
	code := C.slmdb_repair_store(path, forC, &text, &message)
	return report(code, text, message)
}

// Destroy removes a store that nobody has open, with its pool. The report says what was left.
func Destroy(directory string, options *Options) (json.RawMessage, error) {
	forC, err := options.forC()
	if err != nil {
		return nil, err
	}
	defer C.slmdb_options_destroy(forC)
	path := C.CString(directory)
	defer C.free(unsafe.Pointer(path))
	var text, message *C.char
	code := C.slmdb_destroy_store(path, forC, &text, &message)
	return report(code, text, message)
}
