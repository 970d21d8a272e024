package org.slmdb;

import java.lang.System.Logger.Level;
import java.lang.ref.Cleaner;

/**
 * What a store, a snapshot, a cursor or a {@link Shared} holds of the native library. It is closed once: by its
 * user, or, when nobody refers to its owner any more, by a thread of the cleaner's, which logs that.
 */
final class Resource implements Runnable {
  private static final System.Logger LOGGER = System.getLogger("org.slmdb");

  private static final Cleaner CLEANER = Cleaner.create();

  final long handle;

  private final String name;

  /** The store's, of what ends with its store. */
  private final Resource parent;

  private volatile boolean isClosedByUser;
  private Cleaner.Cleanable cleanable;

  private Resource(long handle, String name, Resource parent) {
    this.handle = handle;
    this.name = name;
    this.parent = parent;
  }

  /** The resource of {@code owner}. {@code name} is for the log; {@code parent} is the store's, or null. */
  static Resource of(Object owner, long handle, String name, Resource parent) {
    Resource resource = new Resource(handle, name, parent);
    resource.cleanable = CLEANER.register(owner, resource);
    return resource;
  }

  /** Whether its user has closed it, or the store that it is of. */
  boolean isClosed() {
    return isClosedByUser || (parent != null && parent.isClosedByUser);
  }

  /** Closes it, unless it is closed. */
  void close() {
    isClosedByUser = true;
    cleanable.clean();
  }

  /** What the cleaner does, once. */
  @Override
  public void run() {
    if (isClosed()) {
      Native.close(handle);
      return;
    }
    LOGGER.log(Level.WARNING, name + " was not closed, and nobody uses it any more. It is closed now. Close what you open.");
    try {
      Native.close(handle);
    } catch (RuntimeException failure) {
      LOGGER.log(Level.ERROR, "closing " + name + " failed", failure);
    }
  }
}
