package slmdb

// #include <slmdb/c.h>
import "C"

import (
	"errors"
	"unsafe"
)

// What an [Error] is, for [errors.Is].
var (
	// ErrNotFound says that a key has no value.
	ErrNotFound = errors.New("slmdb: the key has no value")
	// ErrLocked says that somebody else has the store open.
	ErrLocked = errors.New("slmdb: locked")
	// ErrReadOnly says that the store takes no writes. Opening it again recovers it.
	ErrReadOnly = errors.New("slmdb: read-only")
	// ErrFull says that the pool or the disk has no room. Nothing was written.
	ErrFull = errors.New("slmdb: full")
	// ErrCorruption says that bytes on the medium are not what was written there.
	ErrCorruption = errors.New("slmdb: corruption")
	// ErrUnsupported says that another version made the store, or that this build lacks a feature.
	ErrUnsupported = errors.New("slmdb: unsupported")
	// ErrInvalid says that the request can't be carried out as it stands. Nothing was done.
	ErrInvalid = errors.New("slmdb: invalid")
	// ErrIO says that the operating system failed.
	ErrIO = errors.New("slmdb: io")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("slmdb: closed")
	// ErrDefect says that slmdb has a defect. Close the store, open it again, and report this.
	ErrDefect = errors.New("slmdb: defect")
)

// Error is a failure of the store. [errors.Is] tells what kind it is.
type Error struct {
	kind    error
	message string
}

// Error says what happened, where, and what to do.
func (failure *Error) Error() string { return "slmdb: " + failure.message }

// Unwrap returns the kind: one of the variables above.
func (failure *Error) Unwrap() error { return failure.kind }

// failed makes an error of a code and frees the message; nil if there is none. It takes the message's place, because Go may
// read an argument before it makes the call that is another.
func failed(code C.slmdb_code_t, message **C.char) error {
	if code == C.SLMDB_OK {
		return nil
	}
	text := C.GoString(*message)
	C.slmdb_free(unsafe.Pointer(*message))
	return &Error{kind: kindOf(code), message: text}
}

func kindOf(code C.slmdb_code_t) error {
	switch code {
	case C.SLMDB_LOCKED:
		return ErrLocked
	case C.SLMDB_READ_ONLY:
		return ErrReadOnly
	case C.SLMDB_FULL:
		return ErrFull
	case C.SLMDB_CORRUPTION:
		return ErrCorruption
	case C.SLMDB_UNSUPPORTED:
		return ErrUnsupported
	case C.SLMDB_INVALID:
		return ErrInvalid
	case C.SLMDB_IO:
		return ErrIO
	case C.SLMDB_CLOSED:
		return ErrClosed
	default:
		return ErrDefect
	}
}
