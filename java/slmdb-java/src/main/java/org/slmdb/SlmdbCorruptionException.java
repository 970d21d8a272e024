package org.slmdb;

/**
 * Bytes on the medium are not what was written there.
 */
public final class SlmdbCorruptionException extends SlmdbException {
  private static final long serialVersionUID = 1;

  /** The file or directory that it is about. */
  private final String path;

  /** Where the damage is, in bytes. */
  private final long offset;

  SlmdbCorruptionException(String message, String path, long offset) {
    super(message);
    this.path = path;
    this.offset = offset;
  }

  /**
   * The file or directory that it is about.
   *
   * @return its path
   */
  public String path() {
    return path;
  }

  /**
   * Where the damage is.
   *
   * @return bytes from the beginning of the file
   */
  public long offset() {
    return offset;
  }
}
