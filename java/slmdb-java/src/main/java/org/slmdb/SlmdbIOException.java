package org.slmdb;

/**
 * The operating system failed.
 */
public final class SlmdbIOException extends SlmdbException {
  private static final long serialVersionUID = 1;

  /** The file or directory that it is about. */
  private final String path;

  SlmdbIOException(String message, String path) {
    super(message);
    this.path = path;
  }

  /**
   * The file or directory that it is about.
   *
   * @return its path
   */
  public String path() {
    return path;
  }
}
