package org.slmdb;

/**
 * Background threads, memory and open table files that several stores of this process have in common: {@link
 * Options#shared(Shared)}. Any number of threads may open stores with it at once.
 *
 * <p>Stores that have something to do take turns with the threads; what has begun is not interrupted. They have one memory budget
 * and one cache. Where their MemTables take too much of the budget together, the largest is flushed.
 *
 * <p>Close it when no more stores are to be opened with it. Stores that were opened with it keep what they share until the last of
 * them is closed.
 */
public final class Shared implements AutoCloseable {
  private final Resource resource;

  /**
   * What stores share, with the default options.
   *
   * @throws SlmdbLibraryException if the native library can't be loaded
   */
  public Shared() {
    this(new SharedOptions());
  }

  /**
   * What stores share.
   *
   * @param options how much they take together
   * @throws SlmdbInvalidException if an option is out of its range
   * @throws SlmdbLibraryException if the native library can't be loaded
   */
  public Shared(SharedOptions options) {
    NativeLibrary.load();
    long handle = Native.share(options.text());
    try {
      resource = Resource.of(this, handle, "a Shared", null);
    } catch (OutOfMemoryError noMemory) {
      Native.close(handle);
      throw noMemory;
    }
  }

  /** Its number. Whoever uses that keeps this reachable meanwhile. */
  long handle() {
    return resource.handle;
  }

  /**
   * Whether this is closed. Stores may have what they share all the same.
   *
   * @return true if it is
   */
  public boolean isClosed() {
    return resource.isClosed();
  }

  /**
   * Gives it back. Stores that were opened with it stay open, and keep what they share. Opening another with it is a {@link
   * SlmdbClosedException} afterwards. Closing it again changes nothing.
   */
  @Override
  public void close() {
    resource.close();
  }

  @Override
  public String toString() {
    return "Shared[" + (isClosed() ? "closed" : "open") + "]";
  }
}
