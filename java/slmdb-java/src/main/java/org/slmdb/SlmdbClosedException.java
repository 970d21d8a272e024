package org.slmdb;

/**
 * The store, snapshot, cursor or {@link Shared} is closed, or its store is. Open another.
 */
public final class SlmdbClosedException extends SlmdbException {
  private static final long serialVersionUID = 1;

  SlmdbClosedException(String message) {
    super(message);
  }
}
