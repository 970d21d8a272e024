package org.slmdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.ConcurrentModificationException;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

class ClosingTest {
  private static final long STRESS_MILLISECONDS = Long.getLong("slmdb.stress.milliseconds", 4000);

  /** Held, so that what is set for it stays. */
  private static final Logger LOGGER = Logger.getLogger("org.slmdb");

  @TempDir Path directory;

  private Path path() {
    return directory.resolve("db");
  }

  @Test
  void everyCallAfterCloseIsAnException() {
    Db db = Db.open(path());
    byte[] key = Bytes.of("key");
    db.put(key, key);
    Snapshot snapshot = db.snapshot();
    Cursor cursor = db.cursor();
    Cursor ofSnapshot = snapshot.cursor();
    assertTrue(cursor.next() && ofSnapshot.next());
    db.close();
    db.close();
    assertTrue(db.isClosed() && snapshot.isClosed() && cursor.isClosed() && ofSnapshot.isClosed());
    assertFalse(cursor.isValid());
    // The store is free, although nothing of it was closed but itself.
    Db again = Db.open(path());
    WriteBatch batch = new WriteBatch().put(key, key);
    List<Executable> calls =
        Arrays.asList(
            () -> db.get(key), () -> db.containsKey(key), () -> db.put(key, key), () -> db.delete(key),
            () -> db.put(key, key, WriteOption.SYNC), () -> db.delete(key, WriteOption.SYNC),
            () -> db.deleteRange(key, null), () -> db.deleteRange(null, key, WriteOption.SYNC),
            () -> db.write(batch), () -> db.write(batch, WriteOption.SYNC), () -> db.insertIfAbsent(key, key),
            () -> db.updateIfPresent(key, key), db::cursor, () -> db.cursor(key, key), () -> db.prefix(key),
            () -> db.keys(null, null), db::snapshot, db::sync, db::flush, () -> db.compactRange(null, null),
            () -> db.approximate(null, null), () -> db.checkpoint(directory.resolve("copy")), db::stats, db::statsJson,
            db::tableFilesJson, db::verify, () -> snapshot.get(key), () -> snapshot.containsKey(key), snapshot::cursor,
            () -> snapshot.prefix(key), () -> snapshot.keys(key, null), snapshot::sequenceNumber, cursor::next, cursor::previous,
            cursor::seekFirst, cursor::seekLast, () -> cursor.seek(key), () -> cursor.seekBefore(key), cursor::key,
            cursor::value, ofSnapshot::next, ofSnapshot::previous, ofSnapshot::key);
    for (Executable call : calls) {
      assertThrows(SlmdbClosedException.class, call);
    }
    cursor.close();
    snapshot.close();
    ofSnapshot.close();
    assertEquals("key", Bytes.text(again.get(key)));
    again.close();
  }

  @Test
  void aClosedCursorOrSnapshotLeavesTheStoreOpen() {
    try (Db db = Db.open(path())) {
      db.put(Bytes.of("key"), Bytes.of("value"));
      Cursor cursor = db.cursor();
      Snapshot snapshot = db.snapshot();
      cursor.close();
      cursor.close();
      snapshot.close();
      snapshot.close();
      assertThrows(SlmdbClosedException.class, cursor::next);
      assertThrows(SlmdbClosedException.class, snapshot::cursor);
      assertEquals("value", Bytes.text(db.get(Bytes.of("key"))));
      assertEquals(0L, db.stats().get("open_cursors"));
    }
  }

  /** What the threads of the stress share. */
  private static final class Shared {
    final Db db;
    final Snapshot snapshot;
    final Cursor cursor;
    final WriteBatch batch = new WriteBatch().put(Bytes.of(1), Bytes.of("batch")).delete(Bytes.of(2));

    Shared(Path path) {
      db = Db.open(path, new Options().memtableBytes(1 << 20).memoryBudgetBytes(16 << 20));
      db.put(Bytes.of(0), Bytes.of("zero"));
      snapshot = db.snapshot();
      cursor = db.cursor();
    }
  }

  private volatile Shared shared;
  private volatile boolean isOver;

  private void useAnything(AtomicLong calls, AtomicLong refusals) {
    ThreadLocalRandom random = ThreadLocalRandom.current();
    while (!isOver) {
      Shared shared = this.shared;
      byte[] key = Bytes.of(random.nextInt(1000));
      calls.incrementAndGet();
      try {
        switch (random.nextInt(20)) {
          case 0:
            shared.db.delete(key);
            break;
          case 1:
            shared.db.write(shared.batch);
            break;
          case 2:
            shared.db.insertIfAbsent(key, key);
            break;
          case 3:
            shared.snapshot.get(key);
            break;
          case 4:
            // Forgotten: the cleaner closes it beside the others.
            shared.snapshot.keys(key, null).next();
            break;
          case 5:
            try (Cursor own = shared.db.cursor()) {
              for (int step = 0; step < 50 && own.next(); step++) {
                own.key();
              }
            }
            break;
          case 6:
            shared.cursor.next();
            break;
          case 7:
            shared.cursor.previous();
            break;
          case 8:
            shared.cursor.seek(key);
            break;
          case 9:
            shared.cursor.value();
            break;
          case 10:
            shared.db.snapshot().close();
            break;
          case 11:
            shared.db.approximate(key, null);
            break;
          case 12:
            if (random.nextInt(50) == 0) {
              shared.cursor.close();
            }
            break;
          case 13:
            if (random.nextInt(50) == 0) {
              shared.snapshot.close();
            }
            break;
          case 14:
            if (random.nextInt(20) == 0) {
              shared.db.flush();
            }
            break;
          case 15:
            shared.db.stats();
            break;
          case 16:
            shared.db.put(key, new byte[random.nextInt(100) == 0 ? 100_000 : 100]);
            break;
          case 17:
            if (random.nextInt(20) == 0) {
              shared.db.deleteRange(key, Bytes.of(random.nextInt(1000)));
            }
            break;
          default:
            shared.db.get(key);
            break;
        }
      } catch (SlmdbClosedException closed) {
        refusals.incrementAndGet();
        LockSupport.parkNanos(100_000);
      } catch (IllegalStateException | ConcurrentModificationException expected) {
        // The cursor belongs to one thread at a time.
      }
    }
  }

  @Test
  void eightThreadsUseEverythingWhileItIsClosed() throws InterruptedException {
    LOGGER.setLevel(Level.OFF);
    try {
      closeBesideThreads();
    } finally {
      LOGGER.setLevel(null);
    }
  }

  private void closeBesideThreads() throws InterruptedException {
    ConcurrentLinkedQueue<Throwable> failures = new ConcurrentLinkedQueue<>();
    AtomicLong calls = new AtomicLong();
    AtomicLong refusals = new AtomicLong();
    shared = new Shared(path());
    List<Thread> threads = new ArrayList<>();
    for (int number = 0; number < 8; number++) {
      Thread thread = new Thread(() -> useAnything(calls, refusals));
      thread.setUncaughtExceptionHandler((unused, failure) -> failures.add(failure));
      thread.start();
      threads.add(thread);
    }
    int closes = 0;
    long end = System.nanoTime() + STRESS_MILLISECONDS * 1_000_000;
    while (System.nanoTime() < end && failures.isEmpty()) {
      Thread.sleep(ThreadLocalRandom.current().nextInt(30));
      Db db = shared.db;
      Thread other = new Thread(db::close);
      other.start();
      db.close();
      // Nobody but itself has to be closed for that, and at once.
      shared = new Shared(path());
      other.join();
      closes++;
    }
    isOver = true;
    for (Thread thread : threads) {
      thread.join(30_000);
      assertFalse(thread.isAlive());
    }
    shared.db.close();
    assertEquals(Collections.emptyList(), new ArrayList<>(failures));
    assertTrue(closes > 5 && refusals.get() > 0, closes + " closes, " + refusals + " of " + calls + " calls refused");
    System.out.println(closes + " closes beside " + calls + " calls, of which " + refusals + " were refused");
  }

  private static void forget(Path path) {
    Db db = Db.open(path);
    db.put(Bytes.of("key"), Bytes.of("value"));
    db.cursor().next();
    db.snapshot().get(Bytes.of("key"));
  }

  @Test
  void whatWasForgottenIsLoggedAndFreed() throws InterruptedException {
    List<String> logged = Collections.synchronizedList(new ArrayList<>());
    Handler handler =
        new Handler() {
          @Override
          public void publish(LogRecord record) {
            if (record.getMessage().contains(path().toString())) {
              logged.add(record.getMessage());
            }
          }

          @Override
          public void flush() {}

          @Override
          public void close() {}
        };
    LOGGER.addHandler(handler);
    LOGGER.setUseParentHandlers(false);
    try {
      forget(path());
      for (int turn = 0; turn < 200 && logged.size() < 3; turn++) {
        System.gc();
        Thread.sleep(20);
      }
      for (String what : new String[] {"the store", "a cursor", "a snapshot"}) {
        assertEquals(1, logged.stream().filter(text -> text.startsWith(what)).count(), logged.toString());
      }
      // The thread that closes them may be at it.
      Db again = null;
      for (int turn = 0; again == null; turn++) {
        try {
          again = Db.open(path());
        } catch (SlmdbLockedException locked) {
          assertTrue(turn < 200);
          Thread.sleep(20);
        }
      }
      assertEquals("value", Bytes.text(again.get(Bytes.of("key"))));
      again.close();
    } finally {
      LOGGER.removeHandler(handler);
      LOGGER.setUseParentHandlers(true);
    }
  }
}
