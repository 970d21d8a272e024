/* A loop like LevelDB's db_bench, through LevelDB's C interface: bench DIRECTORY [KEYS [VALUE_BYTES]]. It links with slmdb
   and with LevelDB, and prints the processor's time of its thread for each operation. */
#define _POSIX_C_SOURCE 200809L
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char* error = NULL;

static void check(void) {
  if (error == NULL) return;
  fprintf(stderr, "bench: %s\n", error);
  exit(1);
}

static double processor_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static void key_of(char* key, unsigned number) {
  for (int digit = 15; digit >= 0; digit--, number /= 10) key[digit] = (char)('0' + number % 10);
}

static unsigned next(unsigned* state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

static void report(const char* name, double begun_ns, unsigned count) {
  printf("%-12s %8.0f ns\n", name, (processor_ns() - begun_ns) / count);
}

int main(int arguments_count, char** arguments) {
  unsigned keys = arguments_count > 2 ? (unsigned)atoi(arguments[2]) : 200000;
  size_t value_bytes = arguments_count > 3 ? (size_t)atoi(arguments[3]) : 100;
  unsigned state = 1, found = 0;
  char key[16], *value = calloc(1, value_bytes);
  double begun_ns;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* reads = leveldb_readoptions_create();
  leveldb_writeoptions_t* writes = leveldb_writeoptions_create();
  leveldb_cache_t* cache = leveldb_cache_create_lru(256 << 20);
  leveldb_filterpolicy_t* filter = leveldb_filterpolicy_create_bloom(10);
  leveldb_iterator_t* iterator;
  leveldb_t* db;
  if (arguments_count < 2 || keys == 0) {
    fprintf(stderr, "usage: bench DIRECTORY [KEYS [VALUE_BYTES]]\n");
    return 2;
  }
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_error_if_exists(options, 1);
  leveldb_options_set_cache(options, cache);
  leveldb_options_set_filter_policy(options, filter);
  db = leveldb_open(options, arguments[1], &error);
  check();

  begun_ns = processor_ns();
  for (unsigned i = 0; i < keys; i++) {
    key_of(key, next(&state) % keys);
    leveldb_put(db, writes, key, sizeof key, value, value_bytes, &error);
    check();
  }
  report("fillrandom", begun_ns, keys);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  for (int turn = 0; turn < 2; turn++) { /* the first fills the cache */
    begun_ns = processor_ns();
    for (unsigned i = 0; i < keys; i++) {
      size_t found_bytes;
      char* got;
      key_of(key, next(&state) % keys);
      got = leveldb_get(db, reads, key, sizeof key, &found_bytes, &error);
      check();
      found += got != NULL;
      leveldb_free(got);
    }
  }
  report("readrandom", begun_ns, keys);
  begun_ns = processor_ns();
  for (unsigned i = 0; i < keys; i++) {
    size_t found_bytes;
    key_of(key, next(&state) % keys);
    key[15] = '.';
    if (leveldb_get(db, reads, key, sizeof key, &found_bytes, &error) != NULL) return 1;
    check();
  }
  report("readmissing", begun_ns, keys);
  iterator = leveldb_create_iterator(db, reads);
  begun_ns = processor_ns();
  keys = 0;
  for (leveldb_iter_seek_to_first(iterator); leveldb_iter_valid(iterator); leveldb_iter_next(iterator), keys++) {
    size_t length;
    found += leveldb_iter_key(iterator, &length) != NULL && leveldb_iter_value(iterator, &length) != NULL;
  }
  report("readseq", begun_ns, keys);
  leveldb_iter_get_error(iterator, &error);
  check();
  leveldb_iter_destroy(iterator);
  leveldb_close(db);
  leveldb_destroy_db(options, arguments[1], &error);
  check();
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reads);
  leveldb_writeoptions_destroy(writes);
  leveldb_cache_destroy(cache);
  leveldb_filterpolicy_destroy(filter);
  free(value);
  return found == 0;
}
