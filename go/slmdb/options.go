package slmdb

// #include <stdlib.h>
// #include <slmdb/c.h>
import "C"

import "unsafe"

// Medium is the kind of the fast tier, where MemTables and index live.
type Medium int

const (
	// DRAM is plain memory and mapped files. It needs nothing.
	DRAM Medium = C.SLMDB_MEDIUM_DRAM
	// Emulated is a mapped file that is treated as persistent memory. It makes no claim about power cuts.
	Emulated Medium = C.SLMDB_MEDIUM_EMULATED
	// DAX is persistent memory: a file on a file system mounted with -o dax, or a device-dax.
	DAX Medium = C.SLMDB_MEDIUM_DAX
)

// Options say how a store is opened. The zero value has the defaults.
type Options struct {
	// ErrorIfMissing makes a missing store an error. Otherwise it is made.
	ErrorIfMissing bool
	// ErrorIfExists makes an existing store an error.
	ErrorIfExists bool
	// ReadOnly opens the store for reading alone, beside others that do the same.
	ReadOnly bool
	// Sync makes each write return only once it survives a power cut.
	Sync bool
	// Engine is the design that a new store follows. Empty is an existing store's own, or "slm".
	Engine string
	// Medium and Pool say where the fast tier of a new store is. Pool is the path of the pool file. With an empty Pool
	// the store is on DRAM if it is new.
	Medium Medium
	Pool   string
	// MemoryBudgetBytes is the memory for all that the store keeps in plain memory. 0 is 256 MiB.
	MemoryBudgetBytes uint64
	// MemTableBytes is the size of a MemTable. 0 is 64 MiB.
	MemTableBytes uint64
	// Uncompressed leaves blocks of table files as they are. Otherwise they are compressed with LZ4.
	Uncompressed bool
	// Shared is what the store has in common with others. It takes the place of MemoryBudgetBytes. Nil: it has its own.
	Shared *Shared
}

// forC returns the options in C's form, to be given back with slmdb_options_destroy.
func (options *Options) forC() (*C.slmdb_options_t, error) {
	made := C.slmdb_options_create()
	if options == nil {
		return made, nil
	}
	var code C.slmdb_code_t
	var message *C.char
	C.slmdb_options_set_create_if_missing(made, C.bool(!options.ErrorIfMissing))
	C.slmdb_options_set_error_if_exists(made, C.bool(options.ErrorIfExists))
	C.slmdb_options_set_read_only(made, C.bool(options.ReadOnly))
	C.slmdb_options_set_sync(made, C.bool(options.Sync))
	if options.MemoryBudgetBytes > 0 {
		C.slmdb_options_set_memory_budget_bytes(made, C.uint64_t(options.MemoryBudgetBytes))
	}
	if options.MemTableBytes > 0 {
		C.slmdb_options_set_memtable_bytes(made, C.uint64_t(options.MemTableBytes))
	}
	if options.Uncompressed {
		code = C.slmdb_options_set_compression(made, C.SLMDB_COMPRESSION_NONE, &message)
	}
	if code == C.SLMDB_OK && options.Engine != "" {
		engine := C.CString(options.Engine)
		defer C.free(unsafe.Pointer(engine))
		code = C.slmdb_options_set_engine(made, engine, &message)
	}
	if code == C.SLMDB_OK && (options.Pool != "" || options.Medium != DRAM) {
		pool := C.CString(options.Pool)
		defer C.free(unsafe.Pointer(pool))
		code = C.slmdb_options_set_medium(made, C.slmdb_medium_t(options.Medium), pool, &message)
	}
	err := failed(code, &message)
	if err == nil && options.Shared != nil {
		err = options.Shared.giveTo(made)
	}
	if err != nil {
		C.slmdb_options_destroy(made)
		return nil, err
	}
	return made, nil
}

// Durability says of one write whether it returns only once it survives a power cut.
type Durability int

const (
	// AsOptions does what [Options.Sync] says. It is what a write does without a Durability.
	AsOptions Durability = C.SLMDB_SYNC_AS_OPTIONS
	// Sync waits until the write survives a power cut, with every write before it.
	Sync Durability = C.SLMDB_SYNC_YES
	// NoSync does not wait for that. The write survives a crash of the process all the same.
	NoSync Durability = C.SLMDB_SYNC_NO
)

// last returns what was asked for last.
func last(asked []Durability) C.slmdb_sync_t {
	if len(asked) == 0 {
		return C.SLMDB_SYNC_AS_OPTIONS
	}
	return C.slmdb_sync_t(asked[len(asked)-1])
}
