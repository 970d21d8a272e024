package slmdb

// #include <slmdb/c.h>
import "C"

import "runtime"

// Batch is a number of changes that [DB.Write] applies together, in order. One goroutine may use it at a time.
type Batch struct {
	handle *C.slmdb_batch_t
}

// NewBatch returns an empty batch. The garbage collector gives it back.
func NewBatch() *Batch {
	batch := &Batch{C.slmdb_batch_create()}
	runtime.AddCleanup(batch, func(handle *C.slmdb_batch_t) { C.slmdb_batch_destroy(handle) }, batch.handle)
	return batch
}

// Put adds a put. After an error the batch is as it was.
func (batch *Batch) Put(key, value []byte) error {
	defer runtime.KeepAlive(batch)
	var message *C.char
	keyStart, keySize := c(key)
	start, size := c(value)
	return failed(C.slmdb_batch_put(batch.handle, keyStart, keySize, start, size, &message), &message)
}

// Delete adds a delete. After an error the batch is as it was.
func (batch *Batch) Delete(key []byte) error {
	defer runtime.KeepAlive(batch)
	var message *C.char
	start, size := c(key)
	return failed(C.slmdb_batch_delete(batch.handle, start, size, &message), &message)
}

// DeleteRange adds a delete of all keys from `from` on and before `to`. Nil is no bound. It removes what was put
// before, also by this batch. After an error the batch is as it was.
func (batch *Batch) DeleteRange(from, to []byte) error {
	defer runtime.KeepAlive(batch)
	var message *C.char
	fromStart, fromSize := c(from)
	start, size := c(to)
	return failed(C.slmdb_batch_delete_range(batch.handle, fromStart, fromSize, start, size, &message), &message)
}

// Len returns how many changes there are.
func (batch *Batch) Len() int {
	defer runtime.KeepAlive(batch)
	return int(C.slmdb_batch_count(batch.handle))
}

// Clear empties the batch.
func (batch *Batch) Clear() {
	defer runtime.KeepAlive(batch)
	C.slmdb_batch_clear(batch.handle)
}
