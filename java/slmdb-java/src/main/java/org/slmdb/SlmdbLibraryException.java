package org.slmdb;

/**
 * The native library can't be loaded. The message says why, and what to do.
 */
public final class SlmdbLibraryException extends SlmdbException {
  private static final long serialVersionUID = 1;

  SlmdbLibraryException(String message, Throwable cause) {
    super(message);
    initCause(cause);
  }
}
