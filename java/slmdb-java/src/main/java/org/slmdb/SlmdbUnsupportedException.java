package org.slmdb;

/**
 * The store was made by another version, or needs a feature or an order of keys that this library
 * has not.
 */
public final class SlmdbUnsupportedException extends SlmdbException {
  private static final long serialVersionUID = 1;

  SlmdbUnsupportedException(String message) {
    super(message);
  }
}
