package slmdb_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"slmdb"
)

func Example() {
	directory, err := os.MkdirTemp("", "slmdb-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(directory)
	db, err := slmdb.Open(filepath.Join(directory, "fruits"), nil) // made if it is missing
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	if err := db.Put([]byte("apple"), []byte("red")); err != nil { // survives a crash of the process
		log.Fatal(err)
	}
	if err := db.Put([]byte("pear"), []byte("green"), slmdb.Sync); err != nil { // and a power cut
		log.Fatal(err)
	}
	for entry, err := range db.Range([]byte("a"), []byte("q")) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s is %s\n", entry.Key, entry.Value)
	}
	_, err = db.Get([]byte("plum"))
	fmt.Println(errors.Is(err, slmdb.ErrNotFound))
	// Output:
	// apple is red
	// pear is green
	// true
}
