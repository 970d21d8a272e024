package org.slmdb;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class EntriesTest {
  @TempDir Path directory;

  @ParameterizedTest
  @ValueSource(strings = {"slm", "lab", "tlsm"})
  void whatIsPutIsThereAfterAClose(String engine) {
    Options options = new Options().engine(engine).memtableBytes(1 << 20).memoryBudgetBytes(16 << 20);
    try (Db db = Db.open(directory.resolve("db"), options)) {
      db.put(Bytes.of("apple"), Bytes.of("red"));
      db.put(Bytes.of("pear"), Bytes.of("green"), WriteOption.SYNC);
      db.put(Bytes.of("plum"), Bytes.of("blue"), WriteOption.NO_SYNC);
      db.delete(Bytes.of("pear"));
      db.delete(Bytes.of("plum"), WriteOption.SYNC);
      db.delete(Bytes.of("none"));
      assertEquals("red", Bytes.text(db.get(Bytes.of("apple"))));
      assertEquals(directory.resolve("db"), db.path());
    }
    try (Db db = Db.open(directory.resolve("db"))) {
      assertEquals("red", Bytes.text(db.get(Bytes.of("apple"))));
      assertNull(db.get(Bytes.of("pear")));
      assertTrue(db.containsKey(Bytes.of("apple")));
      assertFalse(db.containsKey(Bytes.of("plum")));
      assertEquals(engine, db.stats().get("engine"));
    }
  }

  @Test
  void aBatchTakesEffectAsAWhole() {
    try (Db db = Db.open(directory.resolve("db"))) {
      db.put(Bytes.of("a"), Bytes.of("old"));
      WriteBatch batch = new WriteBatch().put(Bytes.of("a"), Bytes.of("new")).delete(Bytes.of("b"));
      batch.put(Bytes.of("b"), Bytes.of("put last")).put(new byte[0], new byte[0]);
      assertEquals(4, batch.size());
      assertEquals("old", Bytes.text(db.get(Bytes.of("a"))));
      db.write(batch);
      assertEquals("new", Bytes.text(db.get(Bytes.of("a"))));
      assertEquals("put last", Bytes.text(db.get(Bytes.of("b"))));
      assertArrayEquals(new byte[0], db.get(new byte[0]));

      WriteBatch other = new WriteBatch().delete(Bytes.of("a"));
      other.append(batch).append(other);
      assertEquals(10, other.size());
      batch.clear();
      assertTrue(batch.isEmpty() && batch.byteSize() == 0);
      db.write(batch, WriteOption.SYNC);
      db.write(other, WriteOption.SYNC);
      assertEquals("new", Bytes.text(db.get(Bytes.of("a"))));

      // One change that can't be is refused with all the others.
      batch.put(Bytes.of("c"), Bytes.of("c")).put(new byte[65_536], Bytes.of("v"));
      assertThrows(SlmdbInvalidException.class, () -> db.write(batch));
      assertNull(db.get(Bytes.of("c")));
    }
  }

  @Test
  void aRangeIsDeletedAndNullIsNoBound() {
    byte[] none = new byte[0];
    Object[][] cases = {
      {Bytes.of("b"), Bytes.of("d"), Arrays.asList("a=", "d=")},
      {null, Bytes.of("c"), Arrays.asList("c=", "d=")},
      {Bytes.of("bb"), null, Arrays.asList("a=", "b=")},
      {null, null, Arrays.asList()},
      {none, null, Arrays.asList()},
      {null, none, Arrays.asList("a=", "b=", "c=", "d=")},
      {Bytes.of("d"), Bytes.of("a"), Arrays.asList("a=", "b=", "c=", "d=")}
    };
    try (Db db = Db.open(directory.resolve("db"))) {
      for (Object[] one : cases) {
        byte[] from = (byte[]) one[0];
        byte[] to = (byte[]) one[1];
        putLetters(db);
        db.deleteRange(from, to);
        assertEquals(one[2], Bytes.rest(db.cursor(), false));
        putLetters(db);
        try (Snapshot before = db.snapshot()) {
          db.deleteRange(from, to, WriteOption.SYNC);
          assertEquals(one[2], Bytes.rest(db.cursor(), false));
          assertEquals(4, Bytes.rest(before.cursor(), false).size());
        }
        putLetters(db);
        db.write(new WriteBatch().deleteRange(from, to));
        assertEquals(one[2], Bytes.rest(db.cursor(), false));
      }
      assertThrows(SlmdbInvalidException.class, () -> db.deleteRange(new byte[65_536], null));
      assertThrows(SlmdbInvalidException.class, () -> db.deleteRange(null, new byte[65_536]));
    }
  }

  private static void putLetters(Db db) {
    for (String letter : "abcd".split("")) {
      db.put(Bytes.of(letter), new byte[0]);
    }
  }

  @Test
  void aBatchDeletesOfARangeWhatCameBefore() {
    try (Db db = Db.open(directory.resolve("db"))) {
      putLetters(db);
      WriteBatch batch = new WriteBatch().put(Bytes.of("b"), Bytes.of("1")).deleteRange(Bytes.of("a"), Bytes.of("d"));
      batch.put(Bytes.of("c"), Bytes.of("2"));
      assertEquals(3, batch.size());
      assertEquals(11 + 11 + 11, batch.byteSize());
      db.write(new WriteBatch().append(batch));
      assertEquals(Arrays.asList("c=2", "d="), Bytes.rest(db.cursor(), false));
    }
  }

  @Test
  void aLargeBatchIsWritten() {
    byte[] value = new byte[1000];
    WriteBatch batch = new WriteBatch();
    for (int number = 0; number < 5000; number++) {
      batch.put(Bytes.of(number), value);
    }
    try (Db db = Db.open(directory.resolve("db"))) {
      db.write(batch);
      int count = 0;
      try (Cursor keys = db.keys(null, null)) {
        while (keys.next()) {
          assertEquals(count++, Bytes.number(keys.key()));
        }
      }
      assertEquals(5000, count);
      assertArrayEquals(value, db.get(Bytes.of(4999)));
    }
  }

  @Test
  void conditionalWritesTellWhetherTheyWrote() {
    try (Db db = Db.open(directory.resolve("db"))) {
      byte[] key = Bytes.of("key");
      assertFalse(db.updateIfPresent(key, Bytes.of("a")));
      assertTrue(db.insertIfAbsent(key, Bytes.of("b")));
      assertFalse(db.insertIfAbsent(key, Bytes.of("c"), WriteOption.SYNC));
      assertEquals("b", Bytes.text(db.get(key)));
      assertTrue(db.updateIfPresent(key, Bytes.of("d"), WriteOption.SYNC));
      assertEquals("d", Bytes.text(db.get(key)));
    }
  }

  @Test
  void anEmptyKeyAndAnEmptyValueAreLikeOthers() {
    try (Db db = Db.open(directory.resolve("db"))) {
      assertNull(db.get(new byte[0]));
      db.put(new byte[0], Bytes.of("value"));
      db.put(Bytes.of("key"), new byte[0]);
      assertEquals("value", Bytes.text(db.get(new byte[0])));
      assertArrayEquals(new byte[0], db.get(Bytes.of("key")));
      assertTrue(db.containsKey(new byte[0]));
      assertEquals(Arrays.asList("=value", "key="), Bytes.rest(db.cursor(), false));
      db.delete(new byte[0]);
      assertFalse(db.containsKey(new byte[0]));
    }
  }

  @Test
  void valuesOfAnyLengthComeBack() {
    Random random = new Random(1);
    try (Db db = Db.open(directory.resolve("db"))) {
      for (int length : new int[] {1, 100, 65_535, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 10 << 20}) {
        byte[] value = new byte[length];
        random.nextBytes(value);
        byte[] key = Bytes.of(length);
        db.put(key, value);
        assertArrayEquals(value, db.get(key), length + " bytes");
        db.flush();
        assertArrayEquals(value, db.get(key), length + " bytes in a table file");
        // The buffer is small again, or large already.
        assertNull(db.get(Bytes.of("none")));
        try (Cursor cursor = db.cursor(key, null)) {
          assertTrue(cursor.next());
          assertArrayEquals(value, cursor.value());
        }
      }
    }
  }

  @Test
  void keysOfTheGreatestLengthAreTaken() {
    byte[] key = new byte[65_535];
    try (Db db = Db.open(directory.resolve("db"))) {
      db.put(key, key);
      assertArrayEquals(key, db.get(key));
      assertThrows(SlmdbInvalidException.class, () -> db.put(new byte[65_536], key));
    }
  }

  @Test
  void keysOfAllBytesAreInOrder() {
    try (Db db = Db.open(directory.resolve("db"))) {
      for (int number = 0; number < 65_536; number += 7) {
        db.put(new byte[] {(byte) number, (byte) (number >>> 8)}, Bytes.of(number));
      }
      for (boolean backward : new boolean[] {false, true}) {
        byte[] before = null;
        int count = 0;
        try (Cursor cursor = db.cursor()) {
          while (backward ? cursor.previous() : cursor.next()) {
            byte[] key = cursor.key();
            assertEquals((key[0] & 0xff) | (key[1] & 0xff) << 8, Bytes.number(cursor.value()));
            if (before != null) {
              assertEquals(backward, Arrays.compareUnsigned(before, key) > 0);
            }
            before = key;
            count++;
          }
        }
        assertEquals(65_535 / 7 + 1, count);
      }
    }
  }
}
