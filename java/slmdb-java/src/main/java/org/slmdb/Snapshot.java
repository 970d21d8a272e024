package org.slmdb;

import java.lang.ref.Reference;

/**
 * The store as it was when {@link Db#snapshot} was called, whatever has been written since. Any number of threads may use it at
 * once.
 *
 * <p>It may be kept for long: writers go on. Values that it sees and that have been replaced stay on disk until it is closed. It ends
 * with its store. Its cursors go on when it is closed.
 */
public final class Snapshot extends Reader {
  private final Db db;

  Snapshot(Db db, long handle) {
    super(handle, "a snapshot of the store in " + db.path(), db.resource);
    this.db = db;
  }

  @Override
  Db db() {
    return db;
  }

  /**
   * The number of the last write that it sees. Writes are numbered from 1, each change of a batch by itself.
   *
   * @return the number
   * @throws SlmdbClosedException if this is closed
   */
  public long sequenceNumber() {
    try {
      return Native.sequenceNumber(resource.handle);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /** Gives back what it keeps of the store, and waits for reads of other threads. Closing it again changes nothing. */
  @Override
  public void close() {
    resource.close();
  }

  @Override
  public String toString() {
    return "Snapshot[" + db.path() + "]";
  }
}
