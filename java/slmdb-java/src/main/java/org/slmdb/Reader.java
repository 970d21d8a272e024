package org.slmdb;

import java.lang.ref.Reference;
import java.util.Arrays;

/**
 * What can be read: a store as it is ({@link Db}), or as it was at one moment ({@link Snapshot}).
 *
 * <p>Keys are ordered by their bytes, each from 0 to 255. Arrays that are passed are copied, and those that are returned belong to
 * the caller. Any number of threads may read at once. A null key is a {@link NullPointerException}.
 */
public abstract class Reader implements AutoCloseable {
  final Resource resource;

  Reader(long handle, String name, Resource parent) {
    this.resource = Resource.of(this, handle, name, parent);
  }

  /** The open store that is read. */
  abstract Db db();

  /**
   * The value of a key.
   *
   * @param key the key
   * @return its value, or null if it has none
   * @throws SlmdbCorruptionException if the value is damaged
   * @throws SlmdbIOException if the system failed
   * @throws SlmdbClosedException if this is closed
   */
  public byte[] get(byte[] key) {
    try {
      Scratch scratch = Scratch.with(key);
      while (true) {
        long bytes = Native.get(resource.handle, scratch.address, scratch.capacity, key.length);
        if (bytes < 0) {
          return null;
        }
        if (bytes <= scratch.capacity) {
          return scratch.copy((int) bytes);
        }
        scratch = Scratch.of(bytes).filled(key);
      }
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Whether a key has a value. The engine {@code slm} reads no table file for that.
   *
   * @param key the key
   * @return true if it has one
   * @throws SlmdbClosedException if this is closed
   */
  public boolean containsKey(byte[] key) {
    try {
      Scratch scratch = Scratch.with(key);
      boolean found = Native.containsKey(resource.handle, scratch.address, scratch.capacity, key.length);
      Reference.reachabilityFence(scratch);
      return found;
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * A cursor over all entries, as they are at this moment. Close it.
   *
   * @return the cursor, on no entry yet
   * @throws SlmdbClosedException if this is closed
   */
  public Cursor cursor() {
    return cursor(null, null, true);
  }

  /**
   * A cursor over a range, as it is at this moment. Close it.
   *
   * @param from the first key of the range, or null for all keys before {@code to}
   * @param to the first key behind the range, or null for all keys from {@code from} on. To have a key in the range, pass it with a
   *     zero byte appended: that is the next key that there can be. A range that ends before it begins is empty.
   * @return the cursor, on no entry yet
   * @throws SlmdbClosedException if this is closed
   */
  public Cursor cursor(byte[] from, byte[] to) {
    return cursor(from, to, true);
  }

  /**
   * A cursor over the entries whose keys begin with a prefix, as they are at this moment. Close it.
   *
   * @param prefix the prefix; the empty one means all entries
   * @return the cursor, on no entry yet
   * @throws SlmdbClosedException if this is closed
   */
  public Cursor prefix(byte[] prefix) {
    return cursor(prefix, behind(prefix), true);
  }

  /**
   * A cursor over the keys of a range, without their values. The engine {@code slm} reads no table file for that. Close it.
   *
   * @param from as in {@link #cursor(byte[], byte[])}
   * @param to as there
   * @return the cursor, on no entry yet
   * @throws SlmdbClosedException if this is closed
   */
  public Cursor keys(byte[] from, byte[] to) {
    return cursor(from, to, false);
  }

  /** Ends this. Ending it again changes nothing. */
  @Override
  public abstract void close();

  /**
   * Whether this is closed.
   *
   * @return true if it is, or if its store is
   */
  public boolean isClosed() {
    return resource.isClosed();
  }

  private Cursor cursor(byte[] from, byte[] to, boolean readsValues) {
    try {
      Scratch scratch = Scratch.with(from, to);
      long handle =
          Native.cursor(resource.handle, scratch.address, scratch.capacity, length(from), length(to), readsValues);
      Reference.reachabilityFence(scratch);
      return new Cursor(db(), handle, readsValues);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /** The length of a bound, in bytes; -1 for none. */
  static int length(byte[] bound) {
    return bound == null ? -1 : bound.length;
  }

  /** The shortest key that is behind all keys with the prefix; null if there is none. */
  static byte[] behind(byte[] prefix) {
    int length = prefix.length;
    while (length > 0 && prefix[length - 1] == (byte) 0xff) {
      length--;
    }
    if (length == 0) {
      return null;
    }
    byte[] behind = Arrays.copyOf(prefix, length);
    behind[length - 1]++;
    return behind;
  }
}
