/* slmdb's C interface, from C: native DIRECTORY. Each phase names itself on the standard error. */
#include "check.h"

static char path[4096];
static char other_path[4096];

static int compare_backwards(void* state, const char* left, size_t left_bytes, const char* right, size_t right_bytes) {
  size_t shorter = left_bytes < right_bytes ? left_bytes : right_bytes;
  int order = memcmp(left, right, shorter);
  (void)state;
  if (order == 0) order = (left_bytes > right_bytes) - (left_bytes < right_bytes);
  return -order;
}

static void count(void* state) { ++*(int*)state; }

static void on_event(void* state, const char* event, size_t event_bytes) {
  CHECK(strlen(event) == event_bytes);
  if (strstr(event, "\"event\":\"flush_ended\"") != NULL) ++*(int*)state;
}

static void reads_and_writes(slmdb_t* db) {
  bool answer;
  slmdb_batch_t* batch = slmdb_batch_create();
  PHASE("reads and writes");
  check_value(db, "apple", NULL);
  put(db, "apple", "red");
  check_value(db, "apple", "red");
  put(db, "apple", "");
  check_value(db, "apple", "");
  put(db, "", "the empty key");
  check_value(db, "", "the empty key");
  OK(slmdb_delete(db, NULL, 0, SLMDB_SYNC_YES, &message));
  check_value(db, "", NULL);
  OK(slmdb_contains_key(db, "apple", 5, &answer, &message));
  CHECK(answer);
  OK(slmdb_insert_if_absent(db, "apple", 5, "x", 1, SLMDB_SYNC_NO, &answer, &message));
  CHECK(!answer);
  OK(slmdb_update_if_present(db, "apple", 5, "green", 5, SLMDB_SYNC_AS_OPTIONS, &answer, &message));
  CHECK(answer);
  check_value(db, "apple", "green");
  OK(slmdb_batch_put(batch, "pear", 4, "yellow", 6, &message));
  OK(slmdb_batch_delete(batch, "apple", 5, &message));
  CHECK(slmdb_batch_count(batch) == 2);
  OK(slmdb_write(db, batch, SLMDB_SYNC_AS_OPTIONS, &message));
  check_value(db, "apple", NULL);
  check_value(db, "pear", "yellow");
  put(db, "fig", "1");
  put(db, "kiwi", "2");
  put(db, "lime", "3");
  OK(slmdb_delete_range(db, "fig", 3, "lime", 4, SLMDB_SYNC_YES, &message));
  check_value(db, "fig", NULL);
  check_value(db, "kiwi", NULL);
  check_value(db, "lime", "3");
  slmdb_batch_clear(batch);
  OK(slmdb_batch_delete_range(batch, NULL, 0, NULL, 0, &message));
  OK(slmdb_batch_put(batch, "pear", 4, "yellow", 6, &message));
  CHECK(slmdb_batch_count(batch) == 2);
  OK(slmdb_write(db, batch, SLMDB_SYNC_AS_OPTIONS, &message));
  slmdb_batch_destroy(batch);
  check_value(db, "lime", NULL);
  check_value(db, "pear", "yellow");
}

static void wrong_arguments(slmdb_t* db) {
  static char long_key[70000];
  char* value;
  size_t value_bytes;
  bool answer;
  PHASE("wrong arguments");
  ENDS(SLMDB_INVALID, slmdb_put(NULL, "k", 1, "v", 1, 0, &message));
  ENDS(SLMDB_INVALID, slmdb_put(db, NULL, 1, "v", 1, 0, &message));
  ENDS(SLMDB_INVALID, slmdb_put(db, "k", 1, NULL, 1, 0, &message));
  ENDS(SLMDB_INVALID, slmdb_put(db, "k", (size_t)-1, "v", 1, 0, &message));
  ENDS(SLMDB_INVALID, slmdb_put(db, long_key, sizeof long_key, "v", 1, 0, &message));
  ENDS(SLMDB_INVALID, slmdb_put(db, "k", 1, "v", (size_t)1 << 40, 0, &message));
  ENDS(SLMDB_INVALID, slmdb_put(db, "k", 1, "v", 1, 77, &message));
  ENDS(SLMDB_INVALID, slmdb_delete_range(db, NULL, 1, NULL, 0, 0, &message));
  ENDS(SLMDB_INVALID, slmdb_delete_range(db, long_key, sizeof long_key, NULL, 0, 0, &message));
  ENDS(SLMDB_INVALID, slmdb_get(db, "k", 1, NULL, &value_bytes, &message));
  ENDS(SLMDB_INVALID, slmdb_get(db, "k", 1, &value, NULL, &message));
  ENDS(SLMDB_INVALID, slmdb_insert_if_absent(db, "k", 1, "v", 1, 0, NULL, &message));
  ENDS(SLMDB_INVALID, slmdb_open(NULL, NULL, &db, &message));
  CHECK(db == NULL);
  CHECK(slmdb_contains_key(NULL, "k", 1, &answer, NULL) == SLMDB_INVALID && !answer);
  slmdb_release(NULL);
  slmdb_free(NULL);
  slmdb_batch_destroy(NULL);
  slmdb_cursor_destroy(NULL);
  slmdb_snapshot_destroy(NULL);
  slmdb_options_destroy(NULL);
}

static void check_entry(slmdb_cursor_t* cursor, const char* expected_key, const char* expected_value) {
  size_t key_bytes, value_bytes;
  const char *key, *value;
  CHECK(slmdb_cursor_is_valid(cursor));
  key = slmdb_cursor_key(cursor, &key_bytes);
  CHECK(key_bytes == strlen(expected_key) && memcmp(key, expected_key, key_bytes) == 0);
  OK(slmdb_cursor_value(cursor, &value, &value_bytes, &message));
  CHECK(value_bytes == strlen(expected_value) && memcmp(value, expected_value, value_bytes) == 0);
}

static void cursors_and_snapshots(slmdb_t* db) {
  slmdb_snapshot_t* snapshot;
  slmdb_cursor_t* cursor;
  char* value;
  size_t value_bytes;
  PHASE("cursors and snapshots");
  put(db, "a", "1");
  put(db, "b", "2");
  OK(slmdb_snapshot_create(db, &snapshot, &message));
  put(db, "b", "new");
  OK(slmdb_snapshot_get(snapshot, "b", 1, &value, &value_bytes, &message));
  CHECK(value_bytes == 1 && *value == '2');
  slmdb_free(value);
  OK(slmdb_snapshot_cursor_create(snapshot, &cursor, &message));
  slmdb_snapshot_destroy(snapshot);
  CHECK(!slmdb_cursor_is_valid(cursor) && slmdb_cursor_key(cursor, NULL) == NULL);
  OK(slmdb_cursor_seek_first(cursor, &message));
  check_entry(cursor, "a", "1");
  OK(slmdb_cursor_next(cursor, &message));
  check_entry(cursor, "b", "2");
  OK(slmdb_cursor_prev(cursor, &message));
  OK(slmdb_cursor_prev(cursor, &message));
  CHECK(!slmdb_cursor_is_valid(cursor));
  OK(slmdb_cursor_seek_last(cursor, &message));
  check_entry(cursor, "pear", "yellow");
  OK(slmdb_cursor_seek(cursor, "aa", 2, &message));
  check_entry(cursor, "b", "2");
  OK(slmdb_cursor_seek_before(cursor, "b", 1, &message));
  check_entry(cursor, "a", "1");
  slmdb_cursor_destroy(cursor);
}

static void keeping(slmdb_t* db) {
  char* report;
  bool is_clean;
  slmdb_approximate_t about;
  PHASE("keeping a store");
  OK(slmdb_sync(db, &message));
  OK(slmdb_flush(db, &message));
  OK(slmdb_compact_range(db, NULL, 0, NULL, 0, &message));
  OK(slmdb_approximate(db, NULL, 0, NULL, 0, &about, &message));
  CHECK(about.keys == 3 && about.table_bytes > 0 && about.memtable_bytes == 0);
  OK(slmdb_stats(db, &report, &message));
  CHECK(strstr(report, "\"index_keys\":3") != NULL);
  slmdb_free(report);
  OK(slmdb_table_files(db, &report, &message));
  CHECK(strstr(report, "\"largest_key\":\"pear\"") != NULL);
  slmdb_free(report);
  OK(slmdb_verify(db, &is_clean, &report, &message));
  CHECK(is_clean && strstr(report, "\"findings\":[]") != NULL);
  slmdb_free(report);
  OK(slmdb_checkpoint(db, other_path, &message));
  OK(slmdb_repair_store(other_path, NULL, &report, &message));
  CHECK(strstr(report, "\"losses\":[]") != NULL);
  slmdb_free(report);
  OK(slmdb_destroy_store(other_path, NULL, NULL, &message));
  ENDS(SLMDB_LOCKED, slmdb_destroy_store(path, NULL, NULL, &message));
}

static void closed_handles(slmdb_t* db) {
  slmdb_t* second;
  PHASE("closed handles");
  ENDS(SLMDB_LOCKED, slmdb_open(path, NULL, &second, &message));
  OK(slmdb_close(db, &message));
  ENDS(SLMDB_CLOSED, slmdb_close(db, &message));
  ENDS(SLMDB_CLOSED, slmdb_put(db, "k", 1, "v", 1, 0, &message));
  ENDS(SLMDB_CLOSED, slmdb_flush(db, &message));
  slmdb_release(db);
  OK(slmdb_open(path, NULL, &second, &message));
  check_value(second, "b", "new");
  slmdb_release(second);
}

static void functions_of_ours(void) {
  slmdb_options_t* options = slmdb_options_create();
  slmdb_t* db;
  slmdb_cursor_t* cursor;
  int destroyed = 0, flushes = 0;
  PHASE("functions of ours");
  OK(slmdb_destroy_store(path, NULL, NULL, &message));
  OK(slmdb_options_set_comparator(options, "backwards", compare_backwards, &destroyed, count, &message));
  OK(slmdb_options_set_event_listener(options, on_event, &flushes, NULL, &message));
  OK(slmdb_open(path, options, &db, &message));
  put(db, "a", "1");
  put(db, "b", "2");
  OK(slmdb_flush(db, &message));
  OK(slmdb_cursor_create(db, &cursor, &message));
  OK(slmdb_cursor_seek_first(cursor, &message));
  check_entry(cursor, "b", "2");
  slmdb_cursor_destroy(cursor);
  OK(slmdb_close(db, &message));
  slmdb_release(db);
  CHECK(destroyed == 0 && flushes == 1);
  ENDS(SLMDB_UNSUPPORTED, slmdb_open(path, NULL, &db, &message));
  OK(slmdb_destroy_store(path, options, NULL, &message));
  slmdb_options_destroy(options);
  CHECK(destroyed == 1);
}

static void sharing(void) {
  slmdb_options_t* options = slmdb_options_create();
  slmdb_shared_t* shared;
  slmdb_t *db, *other;
  PHASE("sharing");
  ENDS(SLMDB_INVALID, slmdb_shared_create(0, 5, 0, &shared, &message));
  CHECK(shared == NULL);
  slmdb_shared_destroy(NULL);
  OK(slmdb_shared_create(64 << 20, 1, 0, &shared, &message));
  slmdb_options_set_shared(options, shared);
  OK(slmdb_open(path, options, &db, &message));
  OK(slmdb_open(other_path, options, &other, &message));
  slmdb_shared_destroy(shared);
  slmdb_options_destroy(options);
  put(db, "a", "1");
  put(other, "a", "2");
  OK(slmdb_flush(db, &message));
  OK(slmdb_close(db, &message));
  OK(slmdb_flush(other, &message));
  check_value(other, "a", "2");
  slmdb_release(other);
  slmdb_release(db);
  OK(slmdb_destroy_store(path, NULL, NULL, &message));
  OK(slmdb_destroy_store(other_path, NULL, NULL, &message));
}

int main(int count_of_arguments, char** arguments) {
  slmdb_t* db;
  CHECK(count_of_arguments == 2);
  snprintf(path, sizeof path, "%s", arguments[1]);
  snprintf(other_path, sizeof other_path, "%s.copy", arguments[1]);
  CHECK(strchr(slmdb_version(), '.') != NULL);
  OK(slmdb_open(path, NULL, &db, &message));
  reads_and_writes(db);
  wrong_arguments(db);
  cursors_and_snapshots(db);
  keeping(db);
  closed_handles(db);
  functions_of_ours();
  sharing();
  return 0;
}
