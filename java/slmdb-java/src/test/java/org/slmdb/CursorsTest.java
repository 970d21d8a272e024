package org.slmdb;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CursorsTest {
  @TempDir Path directory;

  private Db db;

  @BeforeEach
  void open() {
    db = Db.open(directory.resolve("db"), new Options().memtableBytes(64 << 10));
  }

  @AfterEach
  void close() {
    db.close();
  }

  private void putLetters(String letters) {
    for (String letter : letters.split("")) {
      db.put(Bytes.of(letter), Bytes.of(letter.toUpperCase()));
    }
  }

  @Test
  void aCursorGoesBothWaysAndTurns() {
    putLetters("abcdefgh");
    List<String> all = Arrays.asList("a=A", "b=B", "c=C", "d=D", "e=E", "f=F", "g=G", "h=H");
    assertEquals(all, Bytes.rest(db.cursor(), false));
    List<String> backward = Arrays.asList("h=H", "g=G", "f=F", "e=E", "d=D", "c=C", "b=B", "a=A");
    assertEquals(backward, Bytes.rest(db.cursor(), true));
    try (Cursor cursor = db.cursor()) {
      for (String way : "n:a n:b p:a p: p: n:a n:b n:c n:d n:e p:d n:e n:f n:g n:h n: n: p:h p:g".split(" ")) {
        boolean moved = way.charAt(0) == 'n' ? cursor.next() : cursor.previous();
        assertEquals(way.length() > 2, moved, way);
        assertEquals(moved, cursor.isValid());
        if (moved) {
          assertEquals(way.substring(2), Bytes.text(cursor.key()));
        }
      }
    }
  }

  @Test
  void seeksLeadToTheKeyOrItsNeighbour() {
    putLetters("bdf");
    try (Cursor cursor = db.cursor()) {
      assertTrue(cursor.seek(Bytes.of("b")));
      assertEquals("b", Bytes.text(cursor.key()));
      assertTrue(cursor.seek(Bytes.of("c")));
      assertEquals("d", Bytes.text(cursor.key()));
      assertTrue(cursor.seekBefore(Bytes.of("d")));
      assertEquals("b", Bytes.text(cursor.key()));
      assertFalse(cursor.seek(Bytes.of("g")));
      assertTrue(cursor.previous());
      assertEquals("f", Bytes.text(cursor.key()));
      assertFalse(cursor.seekBefore(Bytes.of("b")));
      assertTrue(cursor.next());
      assertEquals("b", Bytes.text(cursor.key()));
      assertTrue(cursor.seekLast());
      assertEquals("F", Bytes.text(cursor.value()));
      assertTrue(cursor.seekFirst());
      assertEquals("B", Bytes.text(cursor.value()));
    }
  }

  @Test
  void aCursorOnNoEntryHasNoKey() {
    try (Cursor cursor = db.cursor()) {
      assertThrows(IllegalStateException.class, cursor::key);
      assertFalse(cursor.next());
      assertFalse(cursor.previous());
      assertThrows(IllegalStateException.class, cursor::value);
    }
    putLetters("a");
    try (Cursor keys = db.keys(null, null)) {
      assertTrue(keys.next());
      assertEquals("a", Bytes.text(keys.key()));
      assertThrows(IllegalStateException.class, keys::value);
    }
  }

  @Test
  void prefixesAreRanges() {
    for (byte[] key : new byte[][] {{1}, {1, (byte) 0xff}, {1, (byte) 0xff, 0}, {2}, {(byte) 0xff}, {(byte) 0xff, 3}}) {
      db.put(key, Bytes.of("v"));
    }
    assertEquals(3, Bytes.rest(db.prefix(new byte[] {1}), false).size());
    assertEquals(2, Bytes.rest(db.prefix(new byte[] {1, (byte) 0xff}), true).size());
    assertEquals(2, Bytes.rest(db.prefix(new byte[] {(byte) 0xff}), true).size());
    assertEquals(6, Bytes.rest(db.prefix(new byte[0]), false).size());
    assertEquals(0, Bytes.rest(db.prefix(new byte[] {0}), false).size());
    assertArrayEquals(new byte[] {1}, Reader.behind(new byte[] {0, (byte) 0xff, (byte) 0xff}));
    assertNull(Reader.behind(new byte[] {(byte) 0xff}));
  }

  @Test
  void aCursorAndASnapshotStayAsTheyWere() {
    putLetters("abc");
    Snapshot before = db.snapshot();
    try (Cursor cursor = db.cursor()) {
      db.delete(Bytes.of("a"));
      db.put(Bytes.of("b"), Bytes.of("new"));
      db.put(Bytes.of("d"), Bytes.of("D"));
      db.flush();
      db.compactRange(null, null);
      assertEquals(Arrays.asList("a=A", "b=B", "c=C"), Bytes.rest(before.cursor(), false));
      assertEquals(Arrays.asList("c=C", "b=B"), Bytes.rest(before.cursor(Bytes.of("b"), null), true));
      assertEquals("B", Bytes.text(before.get(Bytes.of("b"))));
      assertTrue(before.containsKey(Bytes.of("a")));
      assertNull(before.get(Bytes.of("d")));
      assertEquals(3, before.sequenceNumber());
      Cursor ofSnapshot = before.prefix(Bytes.of("a"));
      before.close();
      assertTrue(before.isClosed());
      assertThrows(SlmdbClosedException.class, () -> before.get(Bytes.of("a")));
      assertEquals(Arrays.asList("a=A"), Bytes.rest(ofSnapshot, false));
      assertEquals(Arrays.asList("a=A", "b=B", "c=C"), Bytes.rest(cursor, false));
    }
    assertEquals(Arrays.asList("b=new", "c=C", "d=D"), Bytes.rest(db.cursor(), false));
  }

  @Test
  void cursorsGiveWhatAMapGives() {
    Random random = new Random(42);
    TreeMap<byte[], byte[]> map = new TreeMap<>(Arrays::compareUnsigned);
    for (int number = 0; number < 4000; number++) {
      byte[] key = Bytes.of(random.nextInt(20_000));
      byte[] value = new byte[random.nextInt(100) == 0 ? 70_000 : random.nextInt(200)];
      random.nextBytes(value);
      db.put(key, value);
      map.put(key, value);
    }
    for (int turn = 0; turn < 200; turn++) {
      byte[] from = random.nextBoolean() ? Bytes.of(random.nextInt(20_000)) : null;
      byte[] to = random.nextBoolean() ? Bytes.of(random.nextInt(20_000)) : null;
      NavigableMap<byte[], byte[]> range = range(map, from, to);
      try (Cursor cursor = db.cursor(from, to)) {
        Map.Entry<byte[], byte[]> wanted = null;
        for (int step = 0; step < 60; step++) {
          byte[] key = Bytes.of(random.nextInt(20_000));
          boolean isOn;
          int choice = random.nextInt(20);
          if (choice == 0) {
            isOn = cursor.seek(key);
            wanted = range.ceilingEntry(key);
          } else if (choice == 1) {
            isOn = cursor.seekBefore(key);
            wanted = range.lowerEntry(key);
          } else if (wanted == null) {
            isOn = choice < 10 ? cursor.seekFirst() : cursor.seekLast();
            wanted = choice < 10 ? range.firstEntry() : range.lastEntry();
          } else if (turn % 2 == 0 ? choice < 18 : choice < 4) {
            isOn = cursor.next();
            wanted = range.higherEntry(wanted.getKey());
          } else {
            isOn = cursor.previous();
            wanted = range.lowerEntry(wanted.getKey());
          }
          assertEquals(wanted != null, isOn);
          if (isOn) {
            assertArrayEquals(wanted.getKey(), cursor.key());
            assertArrayEquals(wanted.getValue(), cursor.value());
          }
        }
      }
    }
  }

  private static NavigableMap<byte[], byte[]> range(TreeMap<byte[], byte[]> map, byte[] from, byte[] to) {
    if (from != null && to != null && Arrays.compareUnsigned(from, to) > 0) {
      return new TreeMap<>(map.comparator());
    }
    NavigableMap<byte[], byte[]> range = from == null ? map : map.tailMap(from, true);
    return to == null ? range : range.headMap(to, false);
  }
}
