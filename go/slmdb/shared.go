package slmdb

// #include <slmdb/c.h>
import "C"

import "sync"

// SharedOptions say how much the stores of a [Shared] take together. The zero value has the defaults.
type SharedOptions struct {
	// MemoryBudgetBytes is the memory for all that the stores keep in plain memory. 0 is 256 MiB.
	MemoryBudgetBytes uint64
	// Threads is how many compactions run at once, from 1 to 4. 0 is 2.
	Threads uint
	// OpenTablesMax is how many table files are held open. 0 is 500.
	OpenTablesMax uint
}

// Shared is what several stores of a process have in common: background threads, memory and open table files. Any number
// of goroutines may open stores with it at once, see [Options].
type Shared struct {
	// Openings hold it, so that Close waits for them.
	lock   sync.RWMutex
	handle *C.slmdb_shared_t
}

// NewShared makes what stores share. It fails with [ErrInvalid]. Close it when no more stores are to be opened with it.
func NewShared(options SharedOptions) (*Shared, error) {
	var handle *C.slmdb_shared_t
	var message *C.char
	code := C.slmdb_shared_create(C.uint64_t(options.MemoryBudgetBytes), C.size_t(options.Threads),
		C.size_t(options.OpenTablesMax), &handle, &message)
	if err := failed(code, &message); err != nil {
		return nil, err
	}
	return &Shared{handle: handle}, nil
}

// Close gives it back. Stores that were opened with it stay open, and keep it. Opening another with it returns
// [ErrClosed]. Closing it again does nothing.
func (shared *Shared) Close() error {
	shared.lock.Lock()
	defer shared.lock.Unlock()
	C.slmdb_shared_destroy(shared.handle)
	shared.handle = nil
	return nil
}

// giveTo adds it to options in C's form.
func (shared *Shared) giveTo(options *C.slmdb_options_t) error {
	shared.lock.RLock()
	defer shared.lock.RUnlock()
	if shared.handle == nil {
		return ErrClosed
	}
	C.slmdb_options_set_shared(options, shared.handle)
	return nil
}
