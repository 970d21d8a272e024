package org.slmdb;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.ConcurrentModificationException;

/**
 * A position that moves over the entries of a range, in the order of their keys, as they were when it was made.
 *
 * <p>It is on an entry or on none. A new one is on none: {@link #next} leads to the first entry, {@link #previous} to the last.
 *
 * <pre>{@code
 * try (Cursor cursor = db.prefix(prefix)) {
 *   while (cursor.next()) {
 *     use(cursor.key(), cursor.value());
 *   }
 * }
 * }</pre>
 *
 * <p>It belongs to one thread at a time: several at once get entries out of order, or a {@link ConcurrentModificationException}.
 * Any thread may close it, or its store: then the others get a {@link SlmdbClosedException}. After any other exception it is on
 * no entry, as a new one.
 *
 * <p>It reads ahead, the more the longer it goes one way, up to 256 entries or 64 KiB. It keeps what it sees alive in the store. So
 * close it.
 */
public final class Cursor implements AutoCloseable {
  private static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.BIG_ENDIAN);
  private static final byte[] NO_BYTES = {};

  /** An entry begins with the lengths of its key and its value. */
  private static final int HEADER_BYTES = 8;

  /** A block for larger entries is not kept. */
  private static final int LARGEST_KEPT_BYTES = 128 << 10;

  private enum Place {
    NEW,
    ON_ENTRY,
    BEFORE_FIRST,
    BEHIND_LAST
  }

  private final Db db;
  private final Resource resource;
  private final boolean hasValues;

  private Place place = Place.NEW;

  /** Entries that were read, in the order of {@link #way}. */
  private byte[] block = NO_BYTES;

  private int blockEnd;
  private int way;

  /** Where the entry begins that it is on. */
  private int entry;

  Cursor(Db db, long handle, boolean hasValues) {
    this.db = db;
    this.resource = Resource.of(this, handle, "a cursor of the store in " + db.path(), db.resource);
    this.hasValues = hasValues;
  }

  /**
   * Moves to the next entry; of a new cursor, or from before the first entry, to the first.
   *
   * @return whether it is on an entry
   * @throws SlmdbClosedException if this or the store is closed
   * @throws SlmdbCorruptionException if what is there is damaged
   * @throws SlmdbIOException if the system failed
   */
  public boolean next() {
    switch (place) {
      case ON_ENTRY:
        return step(Native.FORWARD, Place.BEHIND_LAST);
      case BEHIND_LAST:
        checkOpen();
        return false;
      default:
        return seekFirst();
    }
  }

  /**
   * Moves to the previous entry; of a new cursor, or from behind the last entry, to the last.
   *
   * @return whether it is on an entry
   * @throws SlmdbClosedException as {@link #next}, and the other exceptions, too
   */
  public boolean previous() {
    switch (place) {
      case ON_ENTRY:
        return step(Native.BACKWARD, Place.BEFORE_FIRST);
      case BEFORE_FIRST:
        checkOpen();
        return false;
      default:
        return seekLast();
    }
  }

  /**
   * Moves to the first entry of the range.
   *
   * @return whether it is on an entry
   * @throws SlmdbClosedException as {@link #next}, and the other exceptions, too
   */
  public boolean seekFirst() {
    return fetch(Native.FORWARD, Native.START, NO_BYTES, Place.BEHIND_LAST);
  }

  /**
   * Moves to the last entry of the range.
   *
   * @return whether it is on an entry
   * @throws SlmdbClosedException as {@link #next}, and the other exceptions, too
   */
  public boolean seekLast() {
    return fetch(Native.BACKWARD, Native.START, NO_BYTES, Place.BEFORE_FIRST);
  }

  /**
   * Moves to the first entry of the range whose key is at or after {@code key}.
   *
   * @param key the key
   * @return whether it is on an entry; if not it is behind the last one
   * @throws SlmdbClosedException as {@link #next}, and the other exceptions, too
   */
  public boolean seek(byte[] key) {
    return fetch(Native.FORWARD, Native.AT, key, Place.BEHIND_LAST);
  }

  /**
   * Moves to the last entry of the range whose key is before {@code key}.
   *
   * @param key the key
   * @return whether it is on an entry; if not it is before the first one
   * @throws SlmdbClosedException as {@link #next}, and the other exceptions, too
   */
  public boolean seekBefore(byte[] key) {
    return fetch(Native.BACKWARD, Native.PAST, key, Place.BEFORE_FIRST);
  }

  /**
   * Whether it is on an entry.
   *
   * @return true if it is, and neither it nor the store is closed
   */
  public boolean isValid() {
    return place == Place.ON_ENTRY && !isClosed();
  }

  /**
   * The key of the entry that it is on.
   *
   * @return a copy of it
   * @throws IllegalStateException if it is on no entry
   * @throws SlmdbClosedException if this or the store is closed
   */
  public byte[] key() {
    checkOnEntry();
    int start = entry + HEADER_BYTES;
    return copy(start, length(entry));
  }

  /**
   * The value of the entry that it is on.
   *
   * @return a copy of it
   * @throws IllegalStateException if it is on no entry, or goes over keys alone
   * @throws SlmdbClosedException if this or the store is closed
   */
  public byte[] value() {
    checkOnEntry();
    if (!hasValues) {
      throw new IllegalStateException("a cursor over keys has no values; use cursor() instead of keys()");
    }
    int start = entry + HEADER_BYTES + length(entry);
    return copy(start, length(entry + 4));
  }

  /** Gives back what it keeps of the store. Any thread may do that. Closing it again changes nothing. */
  @Override
  public void close() {
    resource.close();
  }

  /**
   * Whether it is closed.
   *
   * @return true if it is, or its store is
   */
  public boolean isClosed() {
    return resource.isClosed();
  }

  private boolean step(int wanted, Place otherwise) {
    checkOpen();
    if (way == wanted) {
      int following = entry + HEADER_BYTES + length(entry) + length(entry + 4);
      if (following < blockEnd) {
        entry = following;
        return true;
      }
    }
    return fetch(wanted, Native.PAST, key(), otherwise);
  }

  private boolean fetch(int wanted, int start, byte[] key, Place otherwise) {
    try {
      place = Place.NEW;
      Scratch scratch = Scratch.with(key);
      long bytes = Native.fetch(resource.handle, scratch.address, scratch.capacity, wanted, start, key.length);
      while (bytes > scratch.capacity) {
        scratch = Scratch.of(bytes).filled(key);
        bytes = Native.fetch(resource.handle, scratch.address, scratch.capacity, wanted, start, key.length);
      }
      if (bytes == 0) {
        place = otherwise;
        return false;
      }
      int end = (int) bytes;
      if (block.length < end || block.length > LARGEST_KEPT_BYTES) {
        block = new byte[end];
      }
      scratch.copyTo(block, end);
      blockEnd = end;
      way = wanted;
      entry = 0;
      place = Place.ON_ENTRY;
      return true;
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  private int length(int start) {
    if (start + 4 > blockEnd) {
      throw usedByOthers();
    }
    return (int) INT.get(block, start);
  }

  private byte[] copy(int start, int length) {
    if (length < 0 || start > blockEnd - length) {
      throw usedByOthers();
    }
    return Arrays.copyOfRange(block, start, start + length);
  }

  private static ConcurrentModificationException usedByOthers() {
    return new ConcurrentModificationException("a cursor belongs to one thread at a time");
  }

  private void checkOnEntry() {
    checkOpen();
    if (place != Place.ON_ENTRY) {
      throw new IllegalStateException("the cursor is on no entry; look at what its moves return");
    }
  }

  private void checkOpen() {
    if (resource.isClosed()) {
      throw new SlmdbClosedException("the cursor or its store is closed; open another");
    }
  }

  @Override
  public String toString() {
    return "Cursor[" + db.path() + "]";
  }
}
