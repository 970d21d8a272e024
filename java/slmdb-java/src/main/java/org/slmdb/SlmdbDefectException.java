package org.slmdb;

/**
 * slmdb itself has a defect. Close the store and open it again, and report this.
 */
public final class SlmdbDefectException extends SlmdbException {
  private static final long serialVersionUID = 1;

  SlmdbDefectException(String message) {
    super(message);
  }
}
