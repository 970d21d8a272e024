package org.slmdb;

import java.nio.ByteBuffer;

/**
 * The functions of the native library. Its crate {@code slmdb-java} has their other half.
 *
 * <p>{@code handle} is the number of a store, a snapshot, a cursor or a {@link Shared}; one that is none, or none any more, is a
 * {@link SlmdbClosedException}. {@code address} and {@code capacity} are those of the thread's {@link Scratch}, which begins with the
 * bytes that are passed: keys, then values. A negative length of a bound is no bound.
 */
final class Native {
  /** {@link #fetch}: to larger keys. */
  static final int FORWARD = 0;

  /** {@link #fetch}: to smaller keys. */
  static final int BACKWARD = 1;

  /** {@link #fetch}: from the beginning of the range; backward, from its end. */
  static final int START = 0;

  /** {@link #fetch}: from the first key at or after the passed one; backward, from the last before it. */
  static final int AT = 1;

  /** {@link #fetch}: from the first key after the passed one; backward, from the last before it. */
  static final int PAST = 2;

  /** {@link #put}: whatever the key has. */
  static final int ALWAYS = 0;

  /** {@link #put}: if the key has no value. */
  static final int IF_ABSENT = 1;

  /** {@link #put}: if the key has a value. */
  static final int IF_PRESENT = 2;

  /** Writes: without a sync, whatever the store's options say. */
  static final int UNSYNCED = 0;

  /** Writes: with a sync. */
  static final int SYNCED = 1;

  /** Writes: as the store's options say. */
  static final int AS_OPENED = 2;

  private Native() {}

  static native String version();

  /** The address of a direct buffer. */
  static native long address(ByteBuffer buffer);

  /** Makes what stores have in common; its handle. */
  static native long share(String options);

  /** Opens a store; its handle. {@code shared} is the handle of what it has in common with others, or 0. */
  static native long open(String directory, String options, long shared);

  /** Ends what the handle stands for, a store with its cursors and snapshots. One that stands for nothing is left at that. */
  static native void close(long handle);

  /** The length of the value, which is in the buffer if it fits in; -1 without a value. */
  static native long get(long handle, long address, int capacity, int keyBytes);

  static native boolean containsKey(long handle, long address, int capacity, int keyBytes);

  /** Puts; whether it was put. */
  static native boolean put(
      long handle, long address, int capacity, int keyBytes, int valueBytes, int condition, int sync);

  static native void delete(long handle, long address, int capacity, int keyBytes, int sync);

  static native void deleteRange(
      long handle, long address, int capacity, int fromBytes, int toBytes, int sync);

  /** Writes what a {@link WriteBatch} has packed. */
  static native void write(long handle, long address, int capacity, int batchBytes, int sync);

  /** Makes a cursor of a store or a snapshot; its handle. */
  static native long cursor(
      long handle, long address, int capacity, int fromBytes, int toBytes, boolean readsValues);

  /**
   * Packs entries into the buffer. How many bytes they take; 0 at the end of the range. More than the capacity: the first entry
   * takes so many, and nothing was packed. An entry is the length of its key and that of its value, as ints, key and value.
   */
  static native long fetch(long handle, long address, int capacity, int way, int start, int keyBytes);

  /** Makes a snapshot of a store; its handle. */
  static native long snapshot(long handle);

  static native long sequenceNumber(long handle);

  static native void sync(long handle);

  static native void flush(long handle);

  static native void compactRange(long handle, long address, int capacity, int fromBytes, int toBytes);

  /** Writes three longs to the buffer: keys, bytes of table files, bytes of MemTables. */
  static native void approximate(long handle, long address, int capacity, int fromBytes, int toBytes);

  static native void checkpoint(long handle, String directory);

  /** A {@link Report}. */
  static native String stats(long handle);

  static native String statsJson(long handle);

  static native String tableFilesJson(long handle);

  /** A {@link Report}. */
  static native String verify(long handle);

  /** A {@link Report}. */
  static native String repair(String directory, String options);

  /** A {@link Report}. */
  static native String destroy(String directory, String options);

  /**
   * Makes the exception that a native function throws. {@code path} is empty for no file, {@code number} negative for none.
   */
  static SlmdbException exception(int kind, String message, String path, long number) {
    switch (kind) {
      case 1:
        return new SlmdbLockedException(message, path, number);
      case 2:
        return new SlmdbReadOnlyException(message);
      case 3:
        return new SlmdbFullException(message, path);
      case 4:
        return new SlmdbCorruptionException(message, path, number);
      case 5:
        return new SlmdbUnsupportedException(message);
      case 7:
        return new SlmdbIOException(message, path);
      case 8:
        return new SlmdbClosedException(message);
      case 9:
        return new SlmdbDefectException(message);
      default:
        return new SlmdbInvalidException(message);
    }
  }
}
