package org.slmdb;

/**
 * The store takes no writes: it was opened for reading alone, or an earlier failure, which the
 * message names, stopped them. Reads go on. Open the store again once the cause is mended.
 */
public final class SlmdbReadOnlyException extends SlmdbException {
  private static final long serialVersionUID = 1;

  SlmdbReadOnlyException(String message) {
    super(message);
  }
}
