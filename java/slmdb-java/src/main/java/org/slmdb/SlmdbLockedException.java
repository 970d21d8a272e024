package org.slmdb;

/**
 * Somebody else has the store open: another process, or this one. Close the other opener, or wait
 * for it.
 */
public final class SlmdbLockedException extends SlmdbException {
  private static final long serialVersionUID = 1;

  /** The file or directory that it is about. */
  private final String path;

  /** The process that has the store open, or -1. */
  private final long processId;

  SlmdbLockedException(String message, String path, long processId) {
    super(message);
    this.path = path;
    this.processId = processId;
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
   * The process that has the store open.
   *
   * @return its id, or -1 if it is not known
   */
  public long processId() {
    return processId;
  }
}
