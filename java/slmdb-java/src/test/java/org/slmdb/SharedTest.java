package org.slmdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SharedTest {
  private static final int STORES = 20;

  @TempDir Path directory;

  private Path path(int number) {
    return directory.resolve("db" + number);
  }

  /** How many threads of this process are a store's. */
  private static long threads() throws IOException {
    try (Stream<Path> tasks = Files.list(Paths.get("/proc/self/task"))) {
      return tasks.filter(SharedTest::isStores).count();
    }
  }

  private static boolean isStores(Path task) {
    try {
      return Files.readString(task.resolve("comm")).startsWith("slmdb-");
    } catch (IOException ended) {
      return false;
    }
  }

  @Test
  void storesTakeThreadsAndMemoryTogetherAndKeepThem() throws IOException {
    long before = threads();
    List<Db> stores = new ArrayList<>();
    try (Shared shared = new Shared(new SharedOptions().memoryBudgetBytes(32 << 20).threads(1).openTablesMax(50))) {
      // The store's own budget does not count.
      Options options = new Options().memtableBytes(1 << 20).memoryBudgetBytes(16 << 20).shared(shared);
      for (int number = 0; number < STORES; number++) {
        stores.add(Db.open(path(number), options));
      }
      assertFalse(shared.isClosed());
    }
    assertTrue(threads() - before < STORES, threads() + " threads, " + before + " before");
    for (Db db : stores) {
      assertEquals(32L << 20, db.stats().get("memory_budget_bytes"));
      db.put(Bytes.of("key"), Bytes.of(db.path().toString()));
      db.flush();
    }
    stores.remove(0).close();
    for (Db db : stores) {
      assertEquals(db.path().toString(), Bytes.text(db.get(Bytes.of("key"))));
      db.close();
    }
  }

  @Test
  void aStoreIsNotOpenedWithWhatIsClosed() {
    Shared shared = new Shared();
    Options options = new Options().shared(shared);
    try (Db db = Db.open(path(0), options)) {
      assertEquals(256L << 20, db.stats().get("memory_budget_bytes"));
    }
    shared.close();
    shared.close();
    assertTrue(shared.isClosed());
    SlmdbClosedException closed = assertThrows(SlmdbClosedException.class, () -> Db.open(path(1), options));
    assertTrue(closed.getMessage().contains("Shared"), closed.getMessage());
    assertFalse(Files.exists(path(1)));
    Db.open(path(0)).close();
  }

  @Test
  void whatCantBeSharedIsInvalid() {
    for (SharedOptions wrong : new SharedOptions[] {
      new SharedOptions().threads(0), new SharedOptions().threads(5), new SharedOptions().threads(-1),
      new SharedOptions().openTablesMax(0), new SharedOptions().memoryBudgetBytes(-1)
    }) {
      assertThrows(SlmdbInvalidException.class, () -> new Shared(wrong), wrong.toString());
    }
    assertThrows(NullPointerException.class, () -> new Options().shared(null));
  }
}
