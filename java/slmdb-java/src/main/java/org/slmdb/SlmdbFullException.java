package org.slmdb;

/**
 * The disk or the pool has no room. Nothing of the operation was done. Free some space and try
 * again.
 */
public final class SlmdbFullException extends SlmdbException {
  private static final long serialVersionUID = 1;

  /** The file or directory that it is about. */
  private final String path;

  SlmdbFullException(String message, String path) {
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
