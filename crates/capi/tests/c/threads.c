/* Many threads at one store, and a close among them: threads DIRECTORY. For the thread sanitizer, too. */
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, KEYS = 2000, ROUNDS = 3 };

static slmdb_t* db;
static int inserted[THREADS];

static void key_of(char* key, int number) { snprintf(key, 16, "%08d", number); }

static void* write_and_read(void* argument) {
  int self = *(int*)argument;
  for (int number = 0; number < KEYS; number++) {
    char key[16];
    bool was_set;
    key_of(key, number);
    OK(slmdb_insert_if_absent(db, key, 8, key, 8, SLMDB_SYNC_AS_OPTIONS, &was_set, &message));
    inserted[self] += was_set;
    check_value(db, key, key);
  }
  return NULL;
}

static void* walk(void* argument) {
  slmdb_cursor_t* cursor;
  (void)argument;
  for (int round = 0; round < ROUNDS; round++) {
    char last[16] = "";
    OK(slmdb_cursor_create(db, &cursor, &message));
    OK(slmdb_cursor_seek_first(cursor, &message));
    while (slmdb_cursor_is_valid(cursor)) {
      size_t key_bytes;
      const char* key = slmdb_cursor_key(cursor, &key_bytes);
      CHECK(key_bytes == 8 && memcmp(last, key, 8) < 0);
      memcpy(last, key, 8);
      OK(slmdb_cursor_next(cursor, &message));
    }
    slmdb_cursor_destroy(cursor);
    OK(slmdb_flush(db, &message));
  }
  return NULL;
}

/* Reads until somebody closes the store. */
static void* read_until_closed(void* argument) {
  (void)argument;
  for (;;) {
    char *value, *message;
    size_t value_bytes;
    slmdb_code_t code = slmdb_get(db, "00000001", 8, &value, &value_bytes, &message);
    slmdb_free(value);
    slmdb_free(message);
    if (code == SLMDB_CLOSED) return NULL;
    CHECK(code == SLMDB_OK && value_bytes == 8);
  }
}

int main(int count_of_arguments, char** arguments) {
  pthread_t threads[THREADS + 1];
  int numbers[THREADS], sum = 0;
  slmdb_options_t* options = slmdb_options_create();
  CHECK(count_of_arguments == 2);
  slmdb_options_set_memtable_bytes(options, 64 << 10);
  OK(slmdb_open(arguments[1], options, &db, &message));
  slmdb_options_destroy(options);

  PHASE("writers, readers and a cursor");
  for (int self = 0; self < THREADS; self++) {
    numbers[self] = self;
    CHECK(pthread_create(&threads[self], NULL, write_and_read, &numbers[self]) == 0);
  }
  CHECK(pthread_create(&threads[THREADS], NULL, walk, NULL) == 0);
  for (int self = 0; self <= THREADS; self++) CHECK(pthread_join(threads[self], NULL) == 0);
  for (int self = 0; self < THREADS; self++) sum += inserted[self];
  CHECK(sum == KEYS); /* exactly one thread has inserted each key */

  PHASE("a close while others read");
  for (int self = 0; self < THREADS; self++) CHECK(pthread_create(&threads[self], NULL, read_until_closed, NULL) == 0);
  OK(slmdb_close(db, &message));
  for (int self = 0; self < THREADS; self++) CHECK(pthread_join(threads[self], NULL) == 0);
  slmdb_release(db);
  OK(slmdb_destroy_store(arguments[1], NULL, NULL, &message));
  return 0;
}
