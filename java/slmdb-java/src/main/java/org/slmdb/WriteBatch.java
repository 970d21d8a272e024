package org.slmdb;

import java.util.Arrays;

/**
 * Changes that take effect together, or not at all, when {@link Db#write} writes them. Of several changes to one key the last counts.
 *
 * <p>A batch is on the Java heap and holds nothing else, so it need not be closed. It has at most 1 GiB, and belongs to one thread at
 * a time. It stays as it is when it is written, and may be written again.
 */
public final class WriteBatch {
  private static final byte DELETE = 0;
  private static final byte PUT = 1;
  private static final byte DELETE_RANGE = 2;

  private static final byte[] NO_BYTES = {};

  /** What is kept for the next changes when a batch is cleared. */
  private static final int KEPT_BYTES = 1 << 20;

  private byte[] bytes = new byte[256];
  private int end;
  private int count;

  /** A batch without changes. */
  public WriteBatch() {}

  /**
   * Adds a put.
   *
   * @param key the key, of at most 65,535 bytes; {@link Db#write} tells if it is longer
   * @param value the value, of at most 256 MiB
   * @return this
   */
  public WriteBatch put(byte[] key, byte[] value) {
    makeRoom(9L + key.length + value.length);
    bytes[end] = PUT;
    writeLength(end + 1, key.length);
    writeLength(end + 5, value.length);
    System.arraycopy(key, 0, bytes, end + 9, key.length);
    System.arraycopy(value, 0, bytes, end + 9 + key.length, value.length);
    end += 9 + key.length + value.length;
    count++;
    return this;
  }

  /**
   * Adds a delete. The key need not have a value.
   *
   * @param key the key
   * @return this
   */
  public WriteBatch delete(byte[] key) {
    makeRoom(5L + key.length);
    bytes[end] = DELETE;
    writeLength(end + 1, key.length);
    System.arraycopy(key, 0, bytes, end + 5, key.length);
    end += 5 + key.length;
    count++;
    return this;
  }

  /**
   * Adds a delete of all keys of a range. It removes what was put before, also by this batch.
   *
   * @param from the first key of the range, or null
   * @param to the first key behind the range, or null
   * @return this
   */
  public WriteBatch deleteRange(byte[] from, byte[] to) {
    byte[] first = from == null ? NO_BYTES : from;
    byte[] second = to == null ? NO_BYTES : to;
    makeRoom(9L + first.length + second.length);
    bytes[end] = DELETE_RANGE;
    writeLength(end + 1, Reader.length(from));
    writeLength(end + 5, Reader.length(to));
    System.arraycopy(first, 0, bytes, end + 9, first.length);
    System.arraycopy(second, 0, bytes, end + 9 + first.length, second.length);
    end += 9 + first.length + second.length;
    count++;
    return this;
  }

  /**
   * Adds the changes of another batch.
   *
   * @param other the other; it may be this one
   * @return this
   */
  public WriteBatch append(WriteBatch other) {
    int added = other.end;
    int changes = other.count;
    makeRoom(added);
    System.arraycopy(other.bytes, 0, bytes, end, added);
    end += added;
    count += changes;
    return this;
  }

  /** Takes all changes out again. */
  public void clear() {
    if (bytes.length > KEPT_BYTES) {
      bytes = new byte[256];
    }
    end = 0;
    count = 0;
  }

  /**
   * How many changes are in it.
   *
   * @return their number
   */
  public int size() {
    return count;
  }

  /**
   * Whether no change is in it.
   *
   * @return true if none is
   */
  public boolean isEmpty() {
    return count == 0;
  }

  /**
   * How much its changes take.
   *
   * @return bytes of keys and values, and up to 9 bytes more for each change
   */
  public int byteSize() {
    return end;
  }

  /** The thread's buffer, with the packed changes at its beginning. */
  Scratch packed() {
    Scratch scratch = Scratch.of(end);
    scratch.buffer.clear();
    scratch.buffer.put(bytes, 0, end);
    return scratch;
  }

  private void makeRoom(long added) {
    long needed = end + added;
    if (needed > Integer.MAX_VALUE - 8) {
      throw new SlmdbInvalidException("a batch has at most 1 GiB; write it in parts");
    }
    if (needed > bytes.length) {
      bytes = Arrays.copyOf(bytes, (int) Math.min(Math.max(needed, 2L * bytes.length), Integer.MAX_VALUE - 8));
    }
  }

  private void writeLength(int place, int length) {
    bytes[place] = (byte) (length >>> 24);
    bytes[place + 1] = (byte) (length >>> 16);
    bytes[place + 2] = (byte) (length >>> 8);
    bytes[place + 3] = (byte) length;
  }

  @Override
  public String toString() {
    return "WriteBatch[" + count + " changes, " + end + " bytes]";
  }
}
