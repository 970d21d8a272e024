package org.slmdb;

import java.util.List;

/** What {@link Db#verify} has found. It does not change; any thread may use it. */
public final class VerifyReport {
  private final Report report;

  VerifyReport(Report report) {
    this.report = report;
  }

  /**
   * Whether nothing was found.
   *
   * @return true if the store is as it should be
   */
  public boolean isClean() {
    return findings().isEmpty();
  }

  /**
   * What is wrong.
   *
   * @return a text for each finding, with the file and the place
   */
  public List<String> findings() {
    return report.list("findings");
  }

  /**
   * Table files that were read from end to end.
   *
   * @return their number
   */
  public long tableFilesChecked() {
    return report.number("table_files_checked");
  }

  /**
   * The length of these files.
   *
   * @return bytes
   */
  public long tableBytesChecked() {
    return report.number("table_bytes_checked");
  }

  /**
   * Entries in table files, each of which was compared with the index.
   *
   * @return their number
   */
  public long entriesChecked() {
    return report.number("entries_checked");
  }

  /**
   * Keys in the index, each of which was compared with its table file.
   *
   * @return their number
   */
  public long indexKeysChecked() {
    return report.number("index_keys_checked");
  }

  /**
   * Entries in MemTables.
   *
   * @return their number
   */
  public long memtableEntries() {
    return report.number("memtable_entries");
  }

  @Override
  public String toString() {
    return "VerifyReport[" + findings().size() + " findings in " + entriesChecked() + " entries]";
  }
}
