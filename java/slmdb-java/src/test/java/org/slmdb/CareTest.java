package org.slmdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CareTest {
  @TempDir Path directory;

  private Path path() {
    return directory.resolve("db");
  }

  @Test
  void statsHaveTheNumbersOfTheCommand() {
    try (Db db = Db.open(path())) {
      db.put(Bytes.of("key"), new byte[1000]);
      db.flush();
      Map<String, Object> stats = db.stats();
      assertEquals(1L, stats.get("last_sequence_number"));
      assertEquals(1L, stats.get("table_files"));
      assertEquals("dram", stats.get("medium"));
      assertTrue(stats.get("space_amplification") instanceof Double);
      assertTrue(stats.keySet().stream().anyMatch(name -> name.startsWith("since_open.")), stats.toString());
      assertTrue(db.statsJson().startsWith("{") && db.statsJson().contains("\"last_sequence_number\":1"));
      assertTrue(db.tableFilesJson().startsWith("[{") && db.tableFilesJson().contains("\"entries\":1"));
      try (Cursor cursor = db.cursor();
          Snapshot snapshot = db.snapshot()) {
        assertEquals(1L, db.stats().get("open_cursors"));
        assertEquals(1L, db.stats().get("open_snapshots"));
        assertFalse(cursor.isClosed() || snapshot.isClosed());
      }
      assertEquals(0L, db.stats().get("open_cursors"));
      assertEquals(0L, db.stats().get("open_snapshots"));
    }
  }

  @Test
  void aRangeIsEstimatedCompactedAndVerified() {
    try (Db db = Db.open(path())) {
      for (int number = 0; number < 100; number++) {
        db.put(Bytes.of(number), new byte[100]);
      }
      Approximate half = db.approximate(Bytes.of(0), Bytes.of(50));
      assertEquals(50, half.keys());
      assertEquals(0, half.tableBytes());
      assertEquals(50 * 104, half.memtableBytes());
      db.flush();
      for (int number = 0; number < 100; number++) {
        db.delete(Bytes.of(number));
      }
      db.compactRange(Bytes.of(0), null);
      assertEquals(0, db.approximate(null, null).keys());
      db.put(Bytes.of(1), Bytes.of(1));
      db.sync();
      VerifyReport report = db.verify();
      assertTrue(report.isClean(), report.findings().toString());
      assertEquals(1, report.memtableEntries());
      assertEquals(Arrays.asList(), report.findings());
      assertTrue(report.tableFilesChecked() >= 0 && report.tableBytesChecked() >= 0 && report.indexKeysChecked() >= 0);
    }
  }

  @Test
  void aCheckpointIsAStoreOfItsOwn() {
    Path copy = directory.resolve("copy");
    try (Db db = Db.open(path())) {
      db.put(Bytes.of("key"), Bytes.of("before"));
      db.checkpoint(copy);
      db.put(Bytes.of("key"), Bytes.of("after"));
      assertThrows(SlmdbInvalidException.class, () -> db.checkpoint(copy));
      try (Db other = Db.open(copy, new Options().readOnly(true))) {
        assertEquals("before", Bytes.text(other.get(Bytes.of("key"))));
      }
    }
  }

  @Test
  void damageIsFoundAndRepairTellsWhatWasLost() throws IOException {
    try (Db db = Db.open(path(), new Options().compression("none"))) {
      db.put(Bytes.of("key"), new byte[10_000]);
      db.flush();
      db.put(Bytes.of("other"), Bytes.of("value"));
    }
    try (Stream<Path> files = Files.list(path())) {
      List<Path> tables = files.filter(file -> file.toString().endsWith(".sst")).collect(Collectors.toList());
      assertEquals(1, tables.size(), tables.toString());
      Path damaged = tables.get(0);
      byte[] bytes = Files.readAllBytes(damaged);
      bytes[5000] ^= 1;
      Files.write(damaged, bytes);
    }
    try (Db db = Db.open(path())) {
      SlmdbCorruptionException damage =
          assertThrows(SlmdbCorruptionException.class, () -> db.get(Bytes.of("key")));
      assertTrue(damage.path().startsWith(path().toString()) && damage.offset() >= 0, damage.toString());
      assertTrue(damage.getMessage().contains("slmdb verify"));
      VerifyReport report = db.verify();
      assertFalse(report.isClean());
      assertTrue(report.findings().get(0).contains("damage found"));
    }
    RepairReport repaired = Db.repair(path(), new Options());
    // The other key is in a MemTable.
    assertEquals(0, repaired.indexKeys());
    assertEquals(1, repaired.losses().size());
    assertFalse(repaired.damage().isEmpty() || repaired.setAside().isEmpty());
    assertFalse(repaired.pool().isPresent() || repaired.leftPool().isPresent());
    try (Db db = Db.open(path())) {
      assertEquals("value", Bytes.text(db.get(Bytes.of("other"))));
      assertTrue(db.verify().isClean());
    }
  }

  @Test
  void destroyRemovesTheStoreAndNothingElse() throws IOException {
    Path pool = directory.resolve("pool");
    Db.open(path(), new Options().emulatedMedium(pool).poolMaximumBytes(1 << 30)).close();
    Files.write(path().resolve("mine"), new byte[1]);
    DestroyReport report = Db.destroy(path(), new Options());
    assertEquals(Arrays.asList("mine"), report.left());
    assertTrue(report.files() > 0 && report.bytes() > 0 && !report.isDirectoryLeft());
    assertTrue(report.pool().get().startsWith("removed "));
    assertTrue(Files.exists(path().resolve("mine")) && !Files.exists(pool));
    assertThrows(SlmdbInvalidException.class, () -> Db.destroy(path(), new Options()));
  }
}
