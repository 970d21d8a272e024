/*
 * LevelDB's C interface, as slmdb answers it.
 *
 * A program that was made for libleveldb runs on slmdb without a change: link it with libslmdb, or let it load
 * libslmdb under the name libleveldb.so.1d. This header declares what LevelDB's own leveldb/c.h of version 1.23
 * declares, and either may be used. It says what slmdb makes of each function.
 *
 * The data is slmdb's. A database that LevelDB itself made is refused, and never changed.
 *
 * RULES FOR ALL FUNCTIONS
 *
 * Errors. A function with `errptr` tells an error there: it frees the text at *errptr, which must be NULL or a text
 * of this interface, and puts another in its place. Give that back with leveldb_free. Without an error *errptr stays
 * as it is. The text begins with "Corruption: ", "Invalid argument: ", "Not implemented: " or "IO error: ". If
 * `errptr` is NULL the error is not told. A function without `errptr` says below what it does instead.
 *
 * Null pointers. LevelDB forbids them. Here a null handle or name is an error where there is an `errptr`, and does
 * nothing elsewhere. A null key or value must have the length 0, and is then empty. Any other pointer that leads
 * nowhere, and a handle that was given back, is as undefined as in LevelDB.
 *
 * Limits. A key has at most 65,535 bytes, a value 256 MiB, a batch 1 GiB. What is longer is an error of
 * leveldb_put, leveldb_delete or leveldb_write, and nothing is written.
 *
 * Threads. leveldb_t and snapshots may be used by any number of threads at once. Options, batches and iterators may
 * go from thread to thread. Two threads may use one of them at once only if both call functions that take it as
 * `const`. Whoever gives a handle back must be the last to use it. Functions that a program passes in may be called
 * by any thread, and by several at once.
 *
 * Unwinding. No function throws or unwinds. A defect of slmdb that Rust catches is told as an error. Functions that
 * a program passes in must not throw, unwind or longjmp: that ends the process.
 *
 * Order. As in LevelDB, give iterators and snapshots back before leveldb_close. If some are left, they stay usable, and the
 * directory stays locked until they are gone.
 */
#ifndef SLMDB_LEVELDB_C_H
#define SLMDB_LEVELDB_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leveldb_t leveldb_t;
typedef struct leveldb_cache_t leveldb_cache_t;
typedef struct leveldb_comparator_t leveldb_comparator_t;
typedef struct leveldb_env_t leveldb_env_t;
typedef struct leveldb_filelock_t leveldb_filelock_t;
typedef struct leveldb_filterpolicy_t leveldb_filterpolicy_t;
typedef struct leveldb_iterator_t leveldb_iterator_t;
typedef struct leveldb_logger_t leveldb_logger_t;
typedef struct leveldb_options_t leveldb_options_t;
typedef struct leveldb_randomfile_t leveldb_randomfile_t;
typedef struct leveldb_readoptions_t leveldb_readoptions_t;
typedef struct leveldb_seqfile_t leveldb_seqfile_t;
typedef struct leveldb_snapshot_t leveldb_snapshot_t;
typedef struct leveldb_writablefile_t leveldb_writablefile_t;
typedef struct leveldb_writebatch_t leveldb_writebatch_t;
typedef struct leveldb_writeoptions_t leveldb_writeoptions_t;

/* ---- A database ---- */

/* Opens the database in the directory `name`; NULL after an error. It is an error if it is missing
   (leveldb_options_set_create_if_missing), was made with a comparator of another name, or is open already. */
leveldb_t* leveldb_open(const leveldb_options_t* options, const char* name, char** errptr);

/* Closes it and gives the handle back. What was acknowledged is safe whatever happens here, so no error is told. */
void leveldb_close(leveldb_t* db);

/* Sets the value of a key. `options` may be NULL. On return the put survives a crash of the process, and with `sync`
   a power cut. */
void leveldb_put(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen, const char* val,
                 size_t vallen, char** errptr);

/* Removes a key. It is no error if it has no value. `options` may be NULL. */
void leveldb_delete(leveldb_t* db, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
                    char** errptr);

/* Applies a batch, wholly or not at all. `options` may be NULL. */
void leveldb_write(leveldb_t* db, const leveldb_writeoptions_t* options, leveldb_writebatch_t* batch, char** errptr);

/* The value of a key, to be given back with leveldb_free, and its length at *vallen. NULL and 0: it has none, or there
   was an error. An empty value is not NULL. `options` may be NULL. */
char* leveldb_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key, size_t keylen, size_t* vallen,
                  char** errptr);

/* An iterator over the database as it is now, or as the snapshot of `options` sees it, on no entry yet. It is never
   NULL: if it can't be made, leveldb_iter_get_error tells why. `options` may be NULL. */
leveldb_iterator_t* leveldb_create_iterator(leveldb_t* db, const leveldb_readoptions_t* options);

/* The database as it is now. It is never NULL: if it can't be taken, reads of it tell why. */
const leveldb_snapshot_t* leveldb_create_snapshot(leveldb_t* db);

/* Gives a snapshot back. Read options that still refer to it give an error then. */
void leveldb_release_snapshot(leveldb_t* db, const leveldb_snapshot_t* snapshot);

/* The value of a property, to be given back with leveldb_free; NULL if there is none of that name.
   leveldb.num-files-at-level0 is the number of table files. They have one level, so levels 1 to 6 have 0.
   leveldb.stats is text with slmdb's numbers, not LevelDB's table. leveldb.sstables has a line for each table file.
   leveldb.approximate-memory-usage is what the database keeps in memory, in bytes. */
char* leveldb_property_value(leveldb_t* db, const char* propname);

/* For each range, about how many bytes of table files the keys from its start on and before its limit take. What is
   not in table files yet counts nothing. A range that can't be read takes 0. */
void leveldb_approximate_sizes(leveldb_t* db, int num_ranges, const char* const* range_start_key,
                               const size_t* range_start_key_len, const char* const* range_limit_key,
                               const size_t* range_limit_key_len, uint64_t* sizes);

/* Merges the table files with keys from start to limit. A null key is no bound. No error is told; then what was done stays. */
void leveldb_compact_range(leveldb_t* db, const char* start_key, size_t start_key_len, const char* limit_key,
                           size_t limit_key_len);

/* Removes a database that nobody has open. It is no error if there is none. Files that are not slmdb's stay. */
void leveldb_destroy_db(const leveldb_options_t* options, const char* name, char** errptr);

/* Makes a database that nobody has open whole again from what can be read. What is lost is not told here;
   slmdb_repair_store of slmdb/c.h tells it. */
void leveldb_repair_db(const leveldb_options_t* options, const char* name, char** errptr);

/* ---- Iterators ---- */

void leveldb_iter_destroy(leveldb_iterator_t* iterator);

/* 1 if it is on an entry, else 0. */
uint8_t leveldb_iter_valid(const leveldb_iterator_t* iterator);

void leveldb_iter_seek_to_first(leveldb_iterator_t* iterator);
void leveldb_iter_seek_to_last(leveldb_iterator_t* iterator);

/* To the first entry whose key is at or after `k`. */
void leveldb_iter_seek(leveldb_iterator_t* iterator, const char* k, size_t klen);

/* To the next or previous entry. On none it stays on none. */
void leveldb_iter_next(leveldb_iterator_t* iterator);
void leveldb_iter_prev(leveldb_iterator_t* iterator);

/* The key or the value of the entry it is on. It stays until the next move. On no entry it is empty, and not NULL. A
   value is read only when it is asked for. If it can't be read it is empty, and leveldb_iter_get_error tells why. */
const char* leveldb_iter_key(const leveldb_iterator_t* iterator, size_t* klen);
const char* leveldb_iter_value(const leveldb_iterator_t* iterator, size_t* vlen);

/* Tells the first error since the iterator was made. */
void leveldb_iter_get_error(const leveldb_iterator_t* iterator, char** errptr);

/* ---- Batches ---- */

leveldb_writebatch_t* leveldb_writebatch_create(void);
void leveldb_writebatch_destroy(leveldb_writebatch_t* batch);
void leveldb_writebatch_clear(leveldb_writebatch_t* batch);

/* Add to a batch. They tell no error. A change that can't be added spoils the batch: leveldb_write tells why and writes
   nothing, until leveldb_writebatch_clear. */
void leveldb_writebatch_put(leveldb_writebatch_t* batch, const char* key, size_t klen, const char* val, size_t vlen);
void leveldb_writebatch_delete(leveldb_writebatch_t* batch, const char* key, size_t klen);
void leveldb_writebatch_append(leveldb_writebatch_t* destination, const leveldb_writebatch_t* source);

/* Calls `put` or `deleted` for each change, in their order. Keys and values live as long as the call. */
void leveldb_writebatch_iterate(const leveldb_writebatch_t* batch, void* state,
                                void (*put)(void*, const char* k, size_t klen, const char* v, size_t vlen),
                                void (*deleted)(void*, const char* k, size_t klen));

/* ---- How a database is opened ---- */

leveldb_options_t* leveldb_options_create(void);
void leveldb_options_destroy(leveldb_options_t* options);

/* Heeded. NULL is the order of bytes. The comparator must live until the database is opened. */
void leveldb_options_set_comparator(leveldb_options_t* options, leveldb_comparator_t* comparator);

/* Accepted and without effect. The index knows every key, so a missing key costs no read of a file without a filter. */
void leveldb_options_set_filter_policy(leveldb_options_t* options, leveldb_filterpolicy_t* policy);

/* Heeded. Both are 0 by default. */
void leveldb_options_set_create_if_missing(leveldb_options_t* options, uint8_t yes);
void leveldb_options_set_error_if_exists(leveldb_options_t* options, uint8_t yes);

/* Accepted and without effect: checksums are always verified; there is one environment; nothing is logged. */
void leveldb_options_set_paranoid_checks(leveldb_options_t* options, uint8_t yes);
void leveldb_options_set_env(leveldb_options_t* options, leveldb_env_t* env);
void leveldb_options_set_info_log(leveldb_options_t* options, leveldb_logger_t* logger);

/* Heeded: the size of a MemTable in bytes, brought within 64 KiB and 1 GiB. Default: 64 MiB. */
void leveldb_options_set_write_buffer_size(leveldb_options_t* options, size_t bytes);

/* Heeded: table files that are open at once, brought within 64 and 50,000. Default: 500. */
void leveldb_options_set_max_open_files(leveldb_options_t* options, int count);

/* Heeded: the database may use as much memory as the cache has, and that of three MemTables. Each database has a cache of
   its own. NULL is slmdb's default, 256 MiB for everything. */
void leveldb_options_set_cache(leveldb_options_t* options, leveldb_cache_t* cache);

/* Heeded: the size of a block in bytes, brought within 1 KiB and 1 MiB. Default: 4 KiB. */
void leveldb_options_set_block_size(leveldb_options_t* options, size_t bytes);

/* Heeded: entries between two keys that are stored whole, brought within 1 and 65,535. Default: 16. */
void leveldb_options_set_block_restart_interval(leveldb_options_t* options, int entries);

/* Heeded: the size of the files that compactions make, in bytes, brought within 1 MiB and 1 GiB. Default: 64 MiB. */
void leveldb_options_set_max_file_size(leveldb_options_t* options, size_t bytes);

/* Heeded: 0 is none. Everything else is LZ4, which stands for Snappy, and is the default. */
enum { leveldb_no_compression = 0, leveldb_snappy_compression = 1 };
void leveldb_options_set_compression(leveldb_options_t* options, int compression);

/* ---- Comparators ---- */

/* An order of keys. `compare` returns a negative number, 0 or a positive one. Keys of different bytes are different keys
   also where it returns 0; their bytes order them then. This alone is not as in LevelDB. The database remembers `name`, and
   opens with a comparator of that name alone. `destructor` may be NULL. */
leveldb_comparator_t* leveldb_comparator_create(void* state, void (*destructor)(void*),
                                                int (*compare)(void*, const char* a, size_t alen, const char* b,
                                                               size_t blen),
                                                const char* (*name)(void*));

/* Gives it back. `destructor` is called now, or when the last database that uses it is closed. */
void leveldb_comparator_destroy(leveldb_comparator_t* comparator);

/* ---- Filter policies ---- */

/* Accepted. Of the functions only `destructor` is ever called, by leveldb_filterpolicy_destroy. */
leveldb_filterpolicy_t* leveldb_filterpolicy_create(
    void* state, void (*destructor)(void*),
    char* (*create_filter)(void*, const char* const* key_array, const size_t* key_length_array, int num_keys,
                           size_t* filter_length),
    uint8_t (*key_may_match)(void*, const char* key, size_t length, const char* filter, size_t filter_length),
    const char* (*name)(void*));
leveldb_filterpolicy_t* leveldb_filterpolicy_create_bloom(int bits_per_key);
void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t* policy);

/* ---- How a read or a write is done ---- */

leveldb_readoptions_t* leveldb_readoptions_create(void);
void leveldb_readoptions_destroy(leveldb_readoptions_t* options);

/* Accepted and without effect: checksums are always verified, and every block may be cached. */
void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t* options, uint8_t yes);
void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t* options, uint8_t yes);

/* Heeded. NULL is the database as it is when it is read. */
void leveldb_readoptions_set_snapshot(leveldb_readoptions_t* options, const leveldb_snapshot_t* snapshot);

leveldb_writeoptions_t* leveldb_writeoptions_create(void);
void leveldb_writeoptions_destroy(leveldb_writeoptions_t* options);

/* Heeded. 0 is the default: a write survives a crash of the process, and a power cut may take the newest. */
void leveldb_writeoptions_set_sync(leveldb_writeoptions_t* options, uint8_t yes);

/* ---- Caches, environments ---- */

leveldb_cache_t* leveldb_cache_create_lru(size_t capacity);
void leveldb_cache_destroy(leveldb_cache_t* cache);

leveldb_env_t* leveldb_create_default_env(void);
void leveldb_env_destroy(leveldb_env_t* env);

/* A directory for tests, to be given back with leveldb_free: $TEST_TMPDIR, or one of the user's own in /tmp. */
char* leveldb_env_get_test_directory(leveldb_env_t* env);

/* ---- Memory and version ---- */

/* Gives back what a function of this header returned. free does the same. */
void leveldb_free(void* ptr);

/* The version of LevelDB whose interface this is: 1 and 23. */
int leveldb_major_version(void);
int leveldb_minor_version(void);

#ifdef __cplusplus
}
#endif

#endif
