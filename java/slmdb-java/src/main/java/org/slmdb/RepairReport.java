package org.slmdb;

import java.util.List;
import java.util.Optional;

/** What {@link Db#repair} has made, and what it could not save. It does not change; any thread may use it. */
public final class RepairReport {
  private final Report report;

  RepairReport(Report report) {
    this.report = report;
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
   * Entries that were in MemTables and are in table files now.
   *
   * @return their number
   */
  public long memtableEntriesSaved() {
    return report.number("memtable_entries_saved");
  }

  /**
   * Keys in the new index.
   *
   * @return their number
   */
  public long indexKeys() {
    return report.number("index_keys");
  }

  /**
   * The new pool, if the store has one.
   *
   * @return its path
   */
  public Optional<String> pool() {
    return Optional.ofNullable(report.word("pool"));
  }

  /**
   * What was damaged.
   *
   * @return a text for each place
   */
  public List<String> damage() {
    return report.list("damage");
  }

  /**
   * What could not be saved.
   *
   * @return a text for each loss; empty if everything was saved
   */
  public List<String> losses() {
    return report.list("losses");
  }

  /**
   * Damaged files, which are kept under new names.
   *
   * @return their new paths
   */
  public List<String> setAside() {
    return report.list("set_aside");
  }

  /**
   * The pool of the store that this one is a copy of, if it had no pool of its own. Nothing of it was changed.
   *
   * @return its path
   */
  public Optional<String> leftPool() {
    return Optional.ofNullable(report.word("left_pool"));
  }

  @Override
  public String toString() {
    return "RepairReport[" + indexKeys() + " keys, " + losses().size() + " losses]";
  }
}
