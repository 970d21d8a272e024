package slmdb

/*
#include <slmdb/c.h>

typedef struct {
  const char* key;
  size_t key_bytes;
  const char* value;
  size_t value_bytes;
} entry_t;

enum { FIRST, LAST, SEEK, SEEK_BEFORE, NEXT, PREV };

// Moves, and reads where it leads to: one call from Go for each step. The key is NULL on no entry.
static slmdb_code_t step(slmdb_cursor_t* cursor, int how, const char* key, size_t key_bytes, entry_t* entry,
                         char** message) {
  slmdb_code_t code = SLMDB_OK;
  switch (how) {
    case FIRST: code = slmdb_cursor_seek_first(cursor, message); break;
    case LAST: code = slmdb_cursor_seek_last(cursor, message); break;
    case SEEK: code = slmdb_cursor_seek(cursor, key, key_bytes, message); break;
    case SEEK_BEFORE: code = slmdb_cursor_seek_before(cursor, key, key_bytes, message); break;
    case NEXT: code = slmdb_cursor_next(cursor, message); break;
    case PREV: code = slmdb_cursor_prev(cursor, message); break;
  }
  entry->key = NULL;
  if (code != SLMDB_OK || !slmdb_cursor_is_valid(cursor)) return code;
  code = slmdb_cursor_value(cursor, &entry->value, &entry->value_bytes, message);
  if (code == SLMDB_OK) entry->key = slmdb_cursor_key(cursor, &entry->key_bytes);
  return code;
}
*/
import "C"

import (
	"iter"
	"runtime"
	"unsafe"
)

// Iterator is a position that moves over the entries of a store as they were when it was made. One goroutine may use it at
// a time. Close it: until then nobody else can open the store.
type Iterator struct {
	cursor *C.slmdb_cursor_t
	entry  C.entry_t
	err    error
}

// Iterator returns an iterator over the store as it is now, on no entry yet.
func (db *DB) Iterator() (*Iterator, error) {
	defer runtime.KeepAlive(db)
	var cursor *C.slmdb_cursor_t
	var message *C.char
	err := failed(C.slmdb_cursor_create(db.handle, &cursor, &message), &message)
	if err != nil {
		return nil, err
	}
	return &Iterator{cursor: cursor}, nil
}

// Close gives the iterator back. Closing it again does nothing.
func (iterator *Iterator) Close() error {
	C.slmdb_cursor_destroy(iterator.cursor)
	iterator.cursor, iterator.entry.key = nil, nil
	return nil
}

func (iterator *Iterator) step(how C.int, key []byte) bool {
	if iterator.cursor == nil {
		iterator.err = ErrClosed
		return false
	}
	var message *C.char
	start, size := c(key)
	code := C.step(iterator.cursor, how, start, size, &iterator.entry, &message)
	iterator.err = failed(code, &message)
	return iterator.Valid()
}

// First moves to the first entry. Like all moves it tells whether there is one; [Iterator.Err] has the error if it failed.
func (iterator *Iterator) First() bool { return iterator.step(C.FIRST, nil) }

// Last moves to the last entry.
func (iterator *Iterator) Last() bool { return iterator.step(C.LAST, nil) }

// Seek moves to the first entry whose key is at or after key.
func (iterator *Iterator) Seek(key []byte) bool { return iterator.step(C.SEEK, key) }

// SeekBefore moves to the last entry whose key is before key.
func (iterator *Iterator) SeekBefore(key []byte) bool { return iterator.step(C.SEEK_BEFORE, key) }

// Next moves to the next entry. On none it stays on none.
func (iterator *Iterator) Next() bool { return iterator.step(C.NEXT, nil) }

// Prev moves to the previous entry. On none it stays on none.
func (iterator *Iterator) Prev() bool { return iterator.step(C.PREV, nil) }

// Valid tells whether the iterator is on an entry.
func (iterator *Iterator) Valid() bool { return iterator.entry.key != nil }

// Key returns a copy of the key of the entry, or nil on none.
func (iterator *Iterator) Key() []byte {
	return iterator.copied(iterator.entry.key, iterator.entry.key_bytes)
}

// Value returns a copy of the value of the entry, or nil on none.
func (iterator *Iterator) Value() []byte {
	return iterator.copied(iterator.entry.value, iterator.entry.value_bytes)
}

func (iterator *Iterator) copied(start *C.char, length C.size_t) []byte {
	if !iterator.Valid() {
		return nil
	}
	bytes := make([]byte, int(length))
	copy(bytes, unsafe.Slice((*byte)(unsafe.Pointer(start)), int(length)))
	return bytes
}

// Err returns the error of the last move, or nil.
func (iterator *Iterator) Err() error { return iterator.err }

// Range returns the entries with keys from `from` on and before `to`, in order, as they are when the loop begins. Nil is no bound. The
// error is that of a store that can't be read; after it the loop ends.
//
//	for entry, err := range db.Range([]byte("a"), nil) {
func (db *DB) Range(from, to []byte) iter.Seq2[Entry, error] {
	return rangeOf(db.Iterator, from, to)
}

// Entry is a key and its value.
type Entry struct {
	Key, Value []byte
}

func rangeOf(open func() (*Iterator, error), from, to []byte) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		iterator, err := open()
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer iterator.Close()
		for there := iterator.Seek(from); there; there = iterator.Next() {
			key := iterator.Key()
			if to != nil && string(key) >= string(to) {
				return
			}
			if !yield(Entry{key, iterator.Value()}, nil) {
				return
			}
		}
		if iterator.Err() != nil {
			yield(Entry{}, iterator.Err())
		}
	}
}
