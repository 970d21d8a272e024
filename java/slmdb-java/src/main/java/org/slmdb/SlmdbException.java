package org.slmdb;

/**
 * What slmdb could not do. Each kind of failure has a subclass. The message names the failure, the place, and the remedy.
 *
 * <p>After a failed write nothing was written, with one exception: a write that waited for its sync, which then failed, may be there
 * or not, and the store takes no more writes.
 */
public abstract class SlmdbException extends RuntimeException {
  private static final long serialVersionUID = 1;

  SlmdbException(String message) {
    super(message);
  }
}
