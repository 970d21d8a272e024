package org.slmdb;

/** How one write is done, if not as {@link Options#sync} says. */
public enum WriteOption {
  /** The write returns when it survives a power cut, and so does every write before it. */
  SYNC(Native.SYNCED),

  /** The write returns when it survives a kill of the process. A power cut may take the newest such writes: a suffix, never a hole. */
  NO_SYNC(Native.UNSYNCED);

  final int number;

  WriteOption(int number) {
    this.number = number;
  }
}
