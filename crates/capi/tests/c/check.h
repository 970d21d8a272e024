/* What the tests in C share. A failed check says where, and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <slmdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);         \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

/* Checks that a call ended with a code, that it has a message if it failed, and none if not. `message` is freed. */
#define ENDS(expected, call)                                                  \
  do {                                                                        \
    char* message = (char*)1;                                                 \
    slmdb_code_t code = (call);                                               \
    if (code != (expected)) {                                                 \
      fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call,       \
              slmdb_code_name(code), message == NULL ? "" : message);         \
      exit(1);                                                                \
    }                                                                         \
    CHECK((message == NULL) == (code == SLMDB_OK));                           \
    slmdb_free(message);                                                      \
  } while (0)

#define OK(call) ENDS(SLMDB_OK, call)

#define PHASE(name) fprintf(stderr, "=== Test %s\n", name)

/* Checks the value of a key; NULL is none. */
static inline void check_value(const slmdb_t* db, const char* key, const char* expected) {
  char* value;
  size_t value_bytes;
  OK(slmdb_get(db, key, strlen(key), &value, &value_bytes, &message));
  CHECK((value == NULL) == (expected == NULL));
  if (expected != NULL) {
    CHECK(value_bytes == strlen(expected) && memcmp(value, expected, value_bytes) == 0);
  }
  slmdb_free(value);
}

static inline void put(const slmdb_t* db, const char* key, const char* value) {
  OK(slmdb_put(db, key, strlen(key), value, strlen(value), SLMDB_SYNC_AS_OPTIONS, &message));
}

#endif
