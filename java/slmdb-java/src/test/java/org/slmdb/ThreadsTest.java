package org.slmdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ThreadsTest {
  private static final int WRITES = 20_000;

  @TempDir Path directory;

  @Test
  void twoThreadsReadWhileOneWrites() throws Exception {
    AtomicInteger written = new AtomicInteger(-1);
    ExecutorService threads = Executors.newFixedThreadPool(3);
    Options options = new Options().memtableBytes(256 << 10).memoryBudgetBytes(16 << 20);
    try (Db db = Db.open(directory.resolve("db"), options)) {
      List<Future<Integer>> reads = new ArrayList<>();
      for (int reader = 0; reader < 2; reader++) {
        boolean scans = reader == 1;
        reads.add(threads.submit(() -> read(db, written, scans)));
      }
      Future<?> writer =
          threads.submit(
              () -> {
                for (int number = 0; number < WRITES; number++) {
                  db.write(new WriteBatch().put(Bytes.of(number), Bytes.of(-number)).put(Bytes.of("last"), Bytes.of(number)));
                  written.set(number);
                }
              });
      writer.get(120, TimeUnit.SECONDS);
      for (Future<Integer> count : reads) {
        assertTrue(count.get(120, TimeUnit.SECONDS) > 0);
      }
    } finally {
      threads.shutdown();
    }
  }

  /** Everything that was written before a read is seen by it, and a batch as a whole. */
  private static int read(Db db, AtomicInteger written, boolean scans) {
    int reads = 0;
    while (written.get() < WRITES - 1) {
      int before = written.get();
      if (before < 0) {
        continue;
      }
      if (scans) {
        try (Cursor cursor = db.cursor(null, Bytes.of("last\0"))) {
          assertTrue(cursor.previous());
          int last = Bytes.number(cursor.value());
          assertTrue(last >= before);
          for (int number = last; number > Math.max(last - 300, -1); number--) {
            assertTrue(cursor.previous());
            assertEquals(number, Bytes.number(cursor.key()));
            assertEquals(-number, Bytes.number(cursor.value()));
          }
        }
      } else {
        int number = (int) (reads * 2_654_435_761L >>> 8 & 0x7fff_ffff) % (before + 1);
        assertEquals(-number, Bytes.number(db.get(Bytes.of(number))));
        assertTrue(Bytes.number(db.get(Bytes.of("last"))) >= before);
      }
      reads++;
    }
    return reads;
  }
}
