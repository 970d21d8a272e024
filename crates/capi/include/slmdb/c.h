/*
 * slmdb: an ordered, embedded key-value store.
 *
 * A put that has returned survives a crash of the process, on any machine. With `sync`, or on persistent memory, it
 * survives a power cut too. docs/guide/c.md has a complete program.
 *
 * RULES FOR ALL FUNCTIONS
 *
 * Errors. A function that can fail returns a slmdb_code_t, and SLMDB_OK is 0. Its last parameter is `message`: a place
 * for a text that says what happened, where, and what to do. It gets NULL if all went well, else a text to be given
 * back with slmdb_free. Pass NULL if you don't want it. A key that has no value is no error.
 *
 * Answers. Places for answers are written to in any case: with NULL, 0 or false if there is no answer. What a function
 * returns to keep is given back with slmdb_free, or with the function that its comment names.
 *
 * Null pointers. A null handle, path or place for an answer is SLMDB_INVALID, and false, 0 or NULL where no code is
 * returned. Setters of options do nothing then. A key or a value with the length 0 is empty, and may be NULL. A null pointer
 * with a length is SLMDB_INVALID. A handle that was given back, or a pointer that leads nowhere, is undefined.
 *
 * Limits. A key has at most 65,535 bytes, a value 256 MiB, a batch 1 GiB. What is longer is SLMDB_INVALID.
 *
 * Threads. Each function says what it allows. "Any thread" means that any number of threads may call it at once with
 * the same handle. "One thread" means that its handle may go from thread to thread, but only one may use it at a time.
 * Whoever gives a handle back must be the last to use it. Functions that you pass in may be called by any thread.
 *
 * Forks. A child of fork can't use what its parent opened: every function is SLMDB_INVALID there, and closing or giving back
 * a handle does nothing. Open stores in the child.
 *
 * Unwinding. No function throws or unwinds. A defect of slmdb that Rust catches is SLMDB_PANIC. Functions that you pass
 * in must not throw, unwind or longjmp: that ends the process.
 */
#ifndef SLMDB_C_H
#define SLMDB_C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a call ended. There may be more in later versions. */
typedef int slmdb_code_t;

#define SLMDB_OK 0          /* it did what it was asked to do */
#define SLMDB_LOCKED 1      /* somebody else has the store open: wait, or end the holder */
#define SLMDB_READ_ONLY 2   /* the store takes no writes; reads go on, and opening it again recovers */
#define SLMDB_FULL 3        /* the pool or the disk has no room; nothing was written */
#define SLMDB_CORRUPTION 4  /* bytes on the medium are not what was written there */
#define SLMDB_UNSUPPORTED 5 /* made by another version, or with a feature that this build lacks */
#define SLMDB_INVALID 6     /* the request can't be carried out as it stands; nothing was done */
#define SLMDB_IO 7          /* the operating system failed */
#define SLMDB_CLOSED 8      /* the handle's store was closed */
#define SLMDB_PANIC 9       /* slmdb has a defect; close the store and open it again */
#define SLMDB_OTHER 10      /* a failure of a kind that this version has no code for */

/* Whether a write is synced. */
typedef int slmdb_sync_t;

#define SLMDB_SYNC_AS_OPTIONS 0 /* as slmdb_options_set_sync said */
#define SLMDB_SYNC_YES 1        /* it returns only once it survives a power cut, with every write before it */
#define SLMDB_SYNC_NO 2         /* it does not wait for that; it survives a crash of the process all the same */

/* The fast tier, where MemTables and index live. */
typedef int slmdb_medium_t;

#define SLMDB_MEDIUM_DRAM 0     /* plain memory and mapped files; needs nothing */
#define SLMDB_MEDIUM_EMULATED 1 /* a mapped file that is treated as persistent memory; no claim about power cuts */
#define SLMDB_MEDIUM_DAX 2      /* persistent memory: a file on a file system with -o dax, or a device-dax */

/* How blocks of table files are compressed. */
typedef int slmdb_compression_t;

#define SLMDB_COMPRESSION_NONE 0
#define SLMDB_COMPRESSION_LZ4 1
#define SLMDB_COMPRESSION_ZSTD 2 /* only in builds that have it: else opening is SLMDB_UNSUPPORTED */

typedef struct slmdb_t slmdb_t;
typedef struct slmdb_options_t slmdb_options_t;
typedef struct slmdb_shared_t slmdb_shared_t;
typedef struct slmdb_batch_t slmdb_batch_t;
typedef struct slmdb_cursor_t slmdb_cursor_t;
typedef struct slmdb_snapshot_t slmdb_snapshot_t;

/* ---- Codes, memory, version. Any thread. ---- */

/* The name of a code, such as "corruption". It lives for ever, and is never NULL. */
const char* slmdb_code_name(slmdb_code_t code);

/* Gives back memory that a function of this header returned; NULL is nothing. free does the same. */
void slmdb_free(void* memory);

/* The version of this library, such as "0.1.0". It lives for ever. */
const char* slmdb_version(void);

/* ---- Options: how a store is opened. One thread. ---- */

/* Options with defaults. Give them back with slmdb_options_destroy; stores that were opened with them stay open. */
slmdb_options_t* slmdb_options_create(void);
void slmdb_options_destroy(slmdb_options_t* options);

/* The design that a new store follows: "slm". A store keeps the engine that it was made with, and naming another is an
   error of slmdb_open. Default: an existing store's own. */
slmdb_code_t slmdb_options_set_engine(slmdb_options_t* options, const char* engine, char** message);

/* Where the fast tier is. `pool` is the path of the pool file, which is made with the store, or of the device; NULL for
   SLMDB_MEDIUM_DRAM. A store keeps its medium. Default: an existing store's own, SLMDB_MEDIUM_DRAM for a new one. */
slmdb_code_t slmdb_options_set_medium(slmdb_options_t* options, slmdb_medium_t medium, const char* pool,
                                      char** message);

/* How blocks are compressed from now on. Default: LZ4. */
slmdb_code_t slmdb_options_set_compression(slmdb_options_t* options, slmdb_compression_t how, char** message);

/* Compares two keys: returns a negative number, 0 or a positive one. Keys of different bytes are different keys also
   where it returns 0; their bytes order them then. Any thread. */
typedef int (*slmdb_compare_t)(void* state, const char* left, size_t left_bytes, const char* right,
                               size_t right_bytes);

/* Gives `state` back. */
typedef void (*slmdb_destroy_t)(void* state);

/* The order of keys. The store remembers `name` (1 to 255 bytes of UTF-8 that do not begin with "bytewise"), and opens
   with a comparator of that name alone. `destroy` is called once: when the options and every store that was opened
   with them are gone, or now if this fails. It may be NULL. Default: by bytes, which is faster. */
slmdb_code_t slmdb_options_set_comparator(slmdb_options_t* options, const char* name, slmdb_compare_t compare,
                                          void* state, slmdb_destroy_t destroy, char** message);

/* Receives an event: one JSON object with the field "event", of `event_bytes` bytes and a zero byte behind them. It
   lives as long as the call. Events come one at a time, on a thread of their own. */
typedef void (*slmdb_on_event_t)(void* state, const char* event, size_t event_bytes);

/* Who is told of flushes, compactions, write stalls, failures and want of space. `on_event` may take its time and use
   the store. It must not close it. slmdb_close returns when all events are delivered. `destroy` is as above. */
slmdb_code_t slmdb_options_set_event_listener(slmdb_options_t* options, slmdb_on_event_t on_event, void* state,
                                              slmdb_destroy_t destroy, char** message);

/* Whether a missing store is made. Default: true. */
void slmdb_options_set_create_if_missing(slmdb_options_t* options, bool yes);
/* Whether an existing store is an error. Default: false. */
void slmdb_options_set_error_if_exists(slmdb_options_t* options, bool yes);
/* Whether it is opened for reading alone, beside others that do the same. Default: false. */
void slmdb_options_set_read_only(slmdb_options_t* options, bool yes);
/* Whether each write returns only once it survives a power cut. Default: false. */
void slmdb_options_set_sync(slmdb_options_t* options, bool yes);
/* Whether the machine saves its processor caches when the power goes (eADR). Nothing can check it. Default: false. */
void slmdb_options_set_caches_are_persistent(slmdb_options_t* options, bool yes);
/* Memory for all that the store keeps in plain memory. Default: 256 MiB. */
void slmdb_options_set_memory_budget_bytes(slmdb_options_t* options, uint64_t bytes);
/* Size of a MemTable, from 4 KiB to 1 GiB. Default: 64 MiB. */
void slmdb_options_set_memtable_bytes(slmdb_options_t* options, uint64_t bytes);
/* How many Immutable MemTables may queue for their flush, at least 1. Default: 2. */
void slmdb_options_set_immutable_memtables_max(slmdb_options_t* options, size_t count);
/* Size of a block before compression, from 64 bytes to 1 MiB. Default: 4 KiB. */
void slmdb_options_set_block_bytes(slmdb_options_t* options, size_t bytes);
/* How many table files are held open at once, at least 1. Default: 500. */
void slmdb_options_set_open_tables_max(slmdb_options_t* options, size_t count);
/* How many compactions run at once, from 1 to 4. Default: one for each processor, from 2 to 4. */
void slmdb_options_set_compaction_threads(slmdb_options_t* options, size_t threads);
/* How many times the size of the live data table files may take, from 1.01 to 100. Default: 1.4. */
void slmdb_options_set_space_amplification_max(slmdb_options_t* options, double times);
/* First size of the pool, by how much it grows, and the most it may grow to. Default: 16 MiB, 64 MiB, 1 TiB. */
void slmdb_options_set_pool_initial_bytes(slmdb_options_t* options, uint64_t bytes);
void slmdb_options_set_pool_growth_bytes(slmdb_options_t* options, uint64_t bytes);
void slmdb_options_set_pool_maximum_bytes(slmdb_options_t* options, uint64_t bytes);

/* ---- What stores have in common. Any thread. ---- */

/* Background threads, memory and open table files for several stores of this process. `threads` is how many compactions run
   at once, from 1 to 4. 0 is the default: 256 MiB, 2 threads, 500 table files. What can't be is SLMDB_INVALID. Give it
   back with slmdb_shared_destroy; stores that were opened with it, and options that have it, keep it. */
slmdb_code_t slmdb_shared_create(uint64_t memory_budget_bytes, size_t threads, size_t open_tables_max,
                                 slmdb_shared_t** shared, char** message);
void slmdb_shared_destroy(slmdb_shared_t* shared);

/* Stores that are opened with these options have this in common with others. It takes the place of the options
   memory_budget_bytes and open_tables_max; compaction_threads may still bound how many compactions of a store run at once.
   Worth it from a handful of stores on: a store by itself has five or six threads. Default: each has its own. Options: one
   thread. */
void slmdb_options_set_shared(slmdb_options_t* options, const slmdb_shared_t* shared);

/* ---- A store ---- */

/* Opens the store in `directory`, and makes it if it is missing. `options` may be NULL. It answers with a handle, to be
   given back with slmdb_release. Numbers that the options forbid are SLMDB_INVALID here. Any thread. */
slmdb_code_t slmdb_open(const char* directory, const slmdb_options_t* options, slmdb_t** db, char** message);

/* Closes the store and tells what went wrong. It waits for calls of other threads that are under way. After it, every call
   with this handle is SLMDB_CLOSED, and so is a second close. Cursors and snapshots stay usable; the directory stays
   locked until they are gone. What was acknowledged is safe even if this fails. Any thread. */
slmdb_code_t slmdb_close(slmdb_t* db, char** message);

/* Gives the handle back; NULL is nothing. A store that is still open is closed, and no error is told. */
void slmdb_release(slmdb_t* db);

/* ---- Reads and writes. Any thread. ---- */

/* The value of a key, to be given back with slmdb_free. NULL: it has none. An empty value is not NULL. */
slmdb_code_t slmdb_get(const slmdb_t* db, const char* key, size_t key_bytes, char** value, size_t* value_bytes,
                       char** message);

/* Whether a key has a value. It reads no file. */
slmdb_code_t slmdb_contains_key(const slmdb_t* db, const char* key, size_t key_bytes, bool* contains, char** message);

/* Sets the value of a key. */
slmdb_code_t slmdb_put(const slmdb_t* db, const char* key, size_t key_bytes, const char* value, size_t value_bytes,
                       slmdb_sync_t sync, char** message);

/* Removes a key. It is no error if it has no value. */
slmdb_code_t slmdb_delete(const slmdb_t* db, const char* key, size_t key_bytes, slmdb_sync_t sync, char** message);

/* Removes all keys from `from` on and before `to`, at one moment: readers see all of it or nothing. It takes the same
   time whatever the range holds. NULL with the length 0 is no bound. */
slmdb_code_t slmdb_delete_range(const slmdb_t* db, const char* from, size_t from_bytes, const char* to,
                                size_t to_bytes, slmdb_sync_t sync, char** message);

/* Sets the value of a key if it has none. Of any number of threads that do it at once, exactly one gets true. */
slmdb_code_t slmdb_insert_if_absent(const slmdb_t* db, const char* key, size_t key_bytes, const char* value,
                                    size_t value_bytes, slmdb_sync_t sync, bool* was_set, char** message);

/* Sets the value of a key if it has one already. */
slmdb_code_t slmdb_update_if_present(const slmdb_t* db, const char* key, size_t key_bytes, const char* value,
                                     size_t value_bytes, slmdb_sync_t sync, bool* was_set, char** message);

/* Applies a batch: all of it or nothing, whatever happens. Several threads may write one batch at once. */
slmdb_code_t slmdb_write(const slmdb_t* db, const slmdb_batch_t* batch, slmdb_sync_t sync, char** message);

/* ---- Batches. One thread. ---- */

/* An empty batch. Give it back with slmdb_batch_destroy. */
slmdb_batch_t* slmdb_batch_create(void);
void slmdb_batch_destroy(slmdb_batch_t* batch);

/* Empties it and keeps its memory. */
void slmdb_batch_clear(slmdb_batch_t* batch);

/* Add a change. After an error the batch is as it was. Of several changes to one key the last counts. A delete of a range
   is one to each key in it; bounds as in slmdb_delete_range. */
slmdb_code_t slmdb_batch_put(slmdb_batch_t* batch, const char* key, size_t key_bytes, const char* value,
                             size_t value_bytes, char** message);
slmdb_code_t slmdb_batch_delete(slmdb_batch_t* batch, const char* key, size_t key_bytes, char** message);
slmdb_code_t slmdb_batch_delete_range(slmdb_batch_t* batch, const char* from, size_t from_bytes, const char* to,
                                      size_t to_bytes, char** message);

/* How many changes it has. */
size_t slmdb_batch_count(const slmdb_batch_t* batch);

/* ---- Cursors: positions in the store as it was when they were made. One thread. ---- */

/* A cursor over the store as it is now, or over what a snapshot sees. It is on no entry yet. Give it back with
   slmdb_cursor_destroy. Making one: any thread. */
slmdb_code_t slmdb_cursor_create(const slmdb_t* db, slmdb_cursor_t** cursor, char** message);
slmdb_code_t slmdb_snapshot_cursor_create(const slmdb_snapshot_t* snapshot, slmdb_cursor_t** cursor, char** message);
void slmdb_cursor_destroy(slmdb_cursor_t* cursor);

/* To the first or the last entry. Like all moves it may lead to no entry, which is no error. After an error it is on none. */
slmdb_code_t slmdb_cursor_seek_first(slmdb_cursor_t* cursor, char** message);
slmdb_code_t slmdb_cursor_seek_last(slmdb_cursor_t* cursor, char** message);

/* To the first entry at or after a key, or to the last before it. */
slmdb_code_t slmdb_cursor_seek(slmdb_cursor_t* cursor, const char* key, size_t key_bytes, char** message);
slmdb_code_t slmdb_cursor_seek_before(slmdb_cursor_t* cursor, const char* key, size_t key_bytes, char** message);

/* To the next or the previous entry. On none it stays on none. */
slmdb_code_t slmdb_cursor_next(slmdb_cursor_t* cursor, char** message);
slmdb_code_t slmdb_cursor_prev(slmdb_cursor_t* cursor, char** message);

/* Whether it is on an entry. */
bool slmdb_cursor_is_valid(const slmdb_cursor_t* cursor);

/* The key of the entry it is on. It stays until the next move. NULL: it is on none. */
const char* slmdb_cursor_key(const slmdb_cursor_t* cursor, size_t* key_bytes);

/* The value of the entry it is on. It stays until the next move. It is read only now. SLMDB_INVALID on no entry. */
slmdb_code_t slmdb_cursor_value(slmdb_cursor_t* cursor, const char** value, size_t* value_bytes, char** message);

/* ---- Snapshots: the store as it was at one moment, for as long as they are held. Any thread. ---- */

/* Takes a snapshot. Give it back with slmdb_snapshot_destroy; cursors of it stay. */
slmdb_code_t slmdb_snapshot_create(const slmdb_t* db, slmdb_snapshot_t** snapshot, char** message);
void slmdb_snapshot_destroy(slmdb_snapshot_t* snapshot);

/* As slmdb_get. */
slmdb_code_t slmdb_snapshot_get(const slmdb_snapshot_t* snapshot, const char* key, size_t key_bytes, char** value,
                                size_t* value_bytes, char** message);

/* The number of the last write that it sees. */
uint64_t slmdb_snapshot_sequence_number(const slmdb_snapshot_t* snapshot);

/* ---- Keeping a store. Any thread. ---- */

/* Makes everything acknowledged so far survive a power cut. */
slmdb_code_t slmdb_sync(const slmdb_t* db, char** message);

/* Brings everything acknowledged so far into table files. Never needed for safety. */
slmdb_code_t slmdb_flush(const slmdb_t* db, char** message);

/* Merges the table files with keys from `from` on and before `to`. NULL with the length 0 is no bound. */
slmdb_code_t slmdb_compact_range(const slmdb_t* db, const char* from, size_t from_bytes, const char* to,
                                 size_t to_bytes, char** message);

/* How much is in a range, about. */
typedef struct slmdb_approximate_t {
  uint64_t keys;           /* keys that have a value */
  uint64_t table_bytes;    /* bytes of table files that their entries take */
  uint64_t memtable_bytes; /* bytes of keys and values in MemTables */
} slmdb_approximate_t;

/* About how much there is from `from` on and before `to`. NULL with the length 0 is no bound. */
slmdb_code_t slmdb_approximate(const slmdb_t* db, const char* from, size_t from_bytes, const char* to, size_t to_bytes,
                               slmdb_approximate_t* about, char** message);

/* Makes a copy of the store in a directory that is new or empty, while reads and writes go on. */
slmdb_code_t slmdb_checkpoint(const slmdb_t* db, const char* directory, char** message);

/* Reports are JSON texts, to be given back with slmdb_free. Pass NULL for `report` if you don't want it. */

/* What the store holds and has done: the same fields as `slmdb stats --json`. */
slmdb_code_t slmdb_stats(const slmdb_t* db, char** report, char** message);

/* An array with an object for each table file: the same fields as `slmdb stats --files --json`. */
slmdb_code_t slmdb_table_files(const slmdb_t* db, char** report, char** message);

/* Checks everything against everything else. Damage is no error: `is_clean` is false then, and the report's "findings" say
   what is wrong and where. `is_clean` may be NULL. */
slmdb_code_t slmdb_verify(const slmdb_t* db, bool* is_clean, char** report, char** message);

/* Makes a store that nobody has open whole again. `options` may be NULL. The report's "losses" are what could not be
   saved: the same fields as `slmdb repair --json`. */
slmdb_code_t slmdb_repair_store(const char* directory, const slmdb_options_t* options, char** report, char** message);

/* Removes a store that nobody has open, with its pool. `options` may be NULL. The report says what was left. */
slmdb_code_t slmdb_destroy_store(const char* directory, const slmdb_options_t* options, char** report,
                                 char** message);

#ifdef __cplusplus
}
#endif

#endif
