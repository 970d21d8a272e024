package org.slmdb;

/** About how much is in a range: {@link Db#approximate}. It does not change; any thread may use it. */
public final class Approximate {
  private final long keys;
  private final long tableBytes;
  private final long memtableBytes;

  Approximate(long keys, long tableBytes, long memtableBytes) {
    this.keys = keys;
    this.tableBytes = tableBytes;
    this.memtableBytes = memtableBytes;
  }

  /**
   * Keys that have a value.
   *
   * @return their number
   */
  public long keys() {
    return keys;
  }

  /**
   * What their entries take of table files.
   *
   * @return bytes
   */
  public long tableBytes() {
    return tableBytes;
  }

  /**
   * What keys and values take of MemTables, those that have been replaced included.
   *
   * @return bytes
   */
  public long memtableBytes() {
    return memtableBytes;
  }

  @Override
  public String toString() {
    return "Approximate[" + keys + " keys, " + tableBytes + " bytes in table files, " + memtableBytes + " in MemTables]";
  }
}
