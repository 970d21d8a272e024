package org.slmdb;

/**
 * The request can't be carried out as it stands: a key over 65,535 bytes, a value over 256 MiB, a
 * missing store, an option out of bounds. Nothing was done.
 */
public final class SlmdbInvalidException extends SlmdbException {
  private static final long serialVersionUID = 1;

  SlmdbInvalidException(String message) {
    super(message);
  }
}
