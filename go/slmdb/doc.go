// Package slmdb is an ordered, embedded key-value store.
//
// A put that has returned survives a crash of the process. With [Sync] it survives a power cut, too.
//
//	db, err := slmdb.Open("fruits", nil) // made if it is missing
//	if err != nil {
//		return err
//	}
//	defer db.Close()
//	err = db.Put([]byte("apple"), []byte("red"))
//
// The package calls libslmdb through cgo, and finds it with pkg-config. scripts/install-c of the project installs it.
//
// A [DB], a [Snapshot] and a [Shared] may be used by any number of goroutines at once, a [Batch] and an [Iterator] by one at a time.
// After Close every method of a DB returns [ErrClosed].
package slmdb
