package org.slmdb;

import java.lang.ref.SoftReference;
import java.nio.ByteBuffer;

/**
 * A thread's direct buffer, through which keys and values cross: no array does, so no call stops the collector.
 *
 * <p>It has 64 KiB. A larger key, value or block makes it grow, up to 1 MiB. What is larger than that gets a buffer that is
 * dropped after the call. A buffer lives as long as its {@code Scratch}: whoever calls a native
 * function and reads nothing from the {@code Scratch} afterwards calls {@link java.lang.ref.Reference#reachabilityFence}.
 */
final class Scratch {
  private static final int SMALLEST_BYTES = 64 << 10;

  /** A thread keeps none that is larger. */
  private static final int LARGEST_KEPT_BYTES = 1 << 20;

  /** Softly, so that a thread that has done with slmdb keeps neither its buffer nor these classes for ever. */
  private static final ThreadLocal<SoftReference<Scratch>> OF_THREAD = new ThreadLocal<>();

  final ByteBuffer buffer;
  final long address;
  final int capacity;

  private Scratch(int capacity) {
    this.buffer = ByteBuffer.allocateDirect(capacity);
    this.address = Native.address(buffer);
    this.capacity = capacity;
  }

  /** The thread's, with room for so many bytes. */
  static Scratch of(long bytes) {
    SoftReference<Scratch> reference = OF_THREAD.get();
    Scratch scratch = reference == null ? null : reference.get();
    return scratch != null && bytes <= scratch.capacity ? scratch : larger(bytes);
  }

  private static Scratch larger(long bytes) {
    if (bytes > Integer.MAX_VALUE - 8) {
      throw new SlmdbInvalidException(
          bytes + " bytes are more than a Java array can have; use smaller values or batches");
    }
    if (bytes > LARGEST_KEPT_BYTES) {
      return new Scratch((int) bytes);
    }
    int capacity = SMALLEST_BYTES;
    while (capacity < bytes) {
      capacity *= 2;
    }
    Scratch grown = new Scratch(capacity);
    OF_THREAD.set(new SoftReference<>(grown));
    return grown;
  }

  /** The thread's, with these bytes at its beginning. */
  static Scratch with(byte[] bytes) {
    return of(bytes.length).filled(bytes);
  }

  /** The thread's, with these bytes at its beginning, one after the other; null is none. */
  static Scratch with(byte[] first, byte[] second) {
    Scratch scratch = of((long) length(first) + length(second));
    scratch.buffer.clear();
    if (first != null) {
      scratch.buffer.put(first);
    }
    if (second != null) {
      scratch.buffer.put(second);
    }
    return scratch;
  }

  /** This, with these bytes at its beginning. */
  Scratch filled(byte[] bytes) {
    buffer.clear();
    buffer.put(bytes);
    return this;
  }

  /** A copy of its first bytes. */
  byte[] copy(int bytes) {
    byte[] copy = new byte[bytes];
    copyTo(copy, bytes);
    return copy;
  }

  /** Copies its first bytes. */
  void copyTo(byte[] target, int bytes) {
    buffer.clear();
    buffer.get(target, 0, bytes);
  }

  private static int length(byte[] bytes) {
    return bytes == null ? 0 : bytes.length;
  }
}
