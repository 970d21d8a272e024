package org.slmdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ErrorsTest {
  @TempDir Path directory;

  private Path path() {
    return directory.resolve("db");
  }

  @Test
  void aStoreThatSomebodyHasOpenIsLocked() {
    try (Db db = Db.open(path())) {
      SlmdbLockedException locked = assertThrows(SlmdbLockedException.class, () -> Db.open(path()));
      assertEquals(ProcessHandle.current().pid(), locked.processId());
      assertEquals(path().resolve("LOCK").toString(), locked.path());
      assertThrows(SlmdbLockedException.class, () -> Db.destroy(path(), new Options()));
      db.put(Bytes.of("key"), Bytes.of("value"));
    }
  }

  @Test
  void aReadOnlyStoreTakesNoWrites() {
    Db.open(path()).close();
    try (Db db = Db.open(path(), new Options().readOnly(true))) {
      assertThrows(SlmdbReadOnlyException.class, () -> db.put(Bytes.of("key"), Bytes.of("value")));
      assertThrows(SlmdbReadOnlyException.class, () -> db.write(new WriteBatch().delete(Bytes.of("key"))));
      assertThrows(SlmdbReadOnlyException.class, () -> db.deleteRange(null, null));
    }
  }

  @Test
  void whatContradictsTheStoreIsInvalid() {
    Options noStore = new Options().createIfMissing(false);
    assertThrows(SlmdbInvalidException.class, () -> Db.open(path(), noStore));
    Db.open(path()).close();
    assertThrows(SlmdbInvalidException.class, () -> Db.open(path(), new Options().errorIfExists(true)));
    SlmdbInvalidException engine =
        assertThrows(SlmdbInvalidException.class, () -> Db.open(path(), new Options().engine("lab")));
    assertTrue(engine.getMessage().contains("slm"), engine.getMessage());
    for (Options wrong : new Options[] {
      new Options().engine("steam"), new Options().medium("paper"), new Options().compression("rar"),
      new Options().compactionPolicy("never"), new Options().memtableBytes(-1), new Options().memtableBytes(1),
      new Options().spaceAmplificationMax(Double.NaN)
    }) {
      assertThrows(SlmdbInvalidException.class, () -> Db.open(directory.resolve("other"), wrong), wrong.toString());
    }
    assertThrows(SlmdbInvalidException.class, () -> new Options().engine("a\0b"));
    assertThrows(NullPointerException.class, () -> new Options().engine(null));
  }

  @Test
  void everyOptionIsTaken() {
    Options options =
        new Options().createIfMissing(true).errorIfExists(false).readOnly(false).engine("slm").medium("dram")
            .cachesArePersistent(false).sync(true).memoryBudgetBytes(16 << 20).memtableBytes(1 << 20)
            .immutableMemtablesMax(3).blockBytes(8192).compression("none").openTablesMax(50)
            .compactionPolicy("manual").compactionThreads(1).spaceAmplificationMax(1.6).poolInitialBytes(1 << 20)
            .poolGrowthBytes(1 << 20).poolMaximumBytes(1 << 30);
    try (Db db = Db.open(path(), options)) {
      db.put(Bytes.of("key"), Bytes.of("value"));
      assertEquals(16L << 20, db.stats().get("memory_budget_bytes"));
    }
  }

  @Test
  void theSystemsFailuresNameTheFile() {
    // Nobody can make a directory there, not even root.
    Path impossible = Paths.get("/proc/slmdb");
    SlmdbIOException failure = assertThrows(SlmdbIOException.class, () -> Db.open(impossible));
    assertEquals(impossible.toString(), failure.path());
  }

  @Test
  void aForeignManifestIsCorruptOrUnsupported() throws IOException {
    Files.createDirectory(path());
    Files.write(path().resolve("MANIFEST"), new byte[100]);
    SlmdbException failure = assertThrows(SlmdbException.class, () -> Db.open(path()));
    assertTrue(
        failure instanceof SlmdbCorruptionException || failure instanceof SlmdbUnsupportedException,
        failure.toString());
  }

  @Test
  void aStoreWithoutSpaceIsFull() {
    Options options =
        new Options().emulatedMedium(directory.resolve("pool")).poolInitialBytes(4 << 20).poolGrowthBytes(1 << 20)
            .poolMaximumBytes(8 << 20).memtableBytes(1 << 20);
    try (Db db = Db.open(path(), options)) {
      SlmdbFullException full =
          assertThrows(SlmdbFullException.class, () -> db.put(Bytes.of("key"), new byte[32 << 20]));
      assertTrue(full.getMessage().contains("nothing was written") && !full.path().isEmpty(), full.getMessage());
    }
  }

  @Test
  void nullIsANullPointerException() {
    try (Db db = Db.open(path())) {
      assertThrows(NullPointerException.class, () -> db.get(null));
      assertThrows(NullPointerException.class, () -> db.put(Bytes.of("key"), null));
      assertThrows(NullPointerException.class, () -> db.put(null, Bytes.of("value")));
      assertThrows(NullPointerException.class, () -> db.delete(null));
      assertThrows(NullPointerException.class, () -> db.checkpoint(null));
      assertThrows(NullPointerException.class, () -> Db.open(null));
    }
  }

  @Test
  void pathsWithAnyLettersAreTaken() {
    Path strange = directory.resolve("ä \ud83d\ude00 'quoted' %s");
    try (Db db = Db.open(strange)) {
      db.put(Bytes.of("key"), Bytes.of("value"));
    }
    assertTrue(Files.isDirectory(strange));
    assertTrue(Paths.get(strange.toString()).resolve("MANIFEST").toFile().exists());
  }

  @Test
  void everyKindOfFailureHasItsException() {
    Class<?>[] classes = {
      SlmdbLockedException.class, SlmdbReadOnlyException.class, SlmdbFullException.class, SlmdbCorruptionException.class,
      SlmdbUnsupportedException.class, SlmdbInvalidException.class, SlmdbIOException.class, SlmdbClosedException.class,
      SlmdbDefectException.class
    };
    for (int kind = 1; kind <= classes.length; kind++) {
      SlmdbException exception = Native.exception(kind, "message", "path", 17);
      assertEquals(classes[kind - 1], exception.getClass());
      assertEquals("message", exception.getMessage());
    }
  }

  @Test
  void numbersThatCantBeAreExceptions() {
    try (Db db = Db.open(path())) {
      long handle = db.resource.handle;
      for (long wrong : new long[] {0, -1, 1, Long.MAX_VALUE, Long.MIN_VALUE, handle + 1, handle + (1L << 32)}) {
        assertThrows(SlmdbClosedException.class, () -> Native.sync(wrong));
        assertThrows(SlmdbClosedException.class, () -> Native.get(wrong, 0, 0, 0));
        Native.close(wrong);
      }
      Scratch scratch = Scratch.of(0);
      for (int wrong : new int[] {-1, scratch.capacity + 1, Integer.MAX_VALUE, Integer.MIN_VALUE}) {
        assertThrows(
            SlmdbInvalidException.class, () -> Native.get(handle, scratch.address, scratch.capacity, wrong));
        assertThrows(
            SlmdbInvalidException.class, () -> Native.write(handle, scratch.address, scratch.capacity, wrong, 0));
        assertThrows(
            SlmdbInvalidException.class,
            () -> Native.put(handle, scratch.address, scratch.capacity, scratch.capacity, wrong, 0, 0));
      }
      for (int wrong : new int[] {scratch.capacity + 1, Integer.MAX_VALUE}) {
        assertThrows(
            SlmdbInvalidException.class,
            () -> Native.deleteRange(handle, scratch.address, scratch.capacity, wrong, 0, 0));
        assertThrows(
            SlmdbInvalidException.class,
            () -> Native.deleteRange(handle, scratch.address, scratch.capacity, scratch.capacity, wrong, 0));
      }
      for (int noCapacity : new int[] {0, -1, Integer.MIN_VALUE}) {
        assertThrows(SlmdbInvalidException.class, () -> Native.get(handle, scratch.address, noCapacity, 1));
      }
      assertThrows(SlmdbInvalidException.class, () -> Native.get(handle, 0, 1 << 20, 1));
      assertThrows(
          SlmdbInvalidException.class, () -> Native.put(handle, scratch.address, scratch.capacity, 1, 1, 7, 0));
      // What the virtual machine refuses is an exception, too.
      assertThrows(SlmdbDefectException.class, () -> Native.address(ByteBuffer.allocate(1)));
      assertThrows(SlmdbDefectException.class, () -> Native.open(null, "", 0));
    }
  }
}
