package org.slmdb;

import java.util.List;
import java.util.Optional;

/** What {@link Db#destroy} has removed, and what it has left. It does not change; any thread may use it. */
public final class DestroyReport {
  private final Report report;

  DestroyReport(Report report) {
    this.report = report;
  }

  /**
   * Files of the directory that were removed.
   *
   * @return their number
   */
  public long files() {
    return report.number("files");
  }

  /**
   * The length of these files.
   *
   * @return bytes
   */
  public long bytes() {
    return report.number("bytes");
  }

  /**
   * What became of the pool, if the store had one.
   *
   * @return a text
   */
  public Optional<String> pool() {
    return Optional.ofNullable(report.word("pool"));
  }

  /**
   * Names in the directory that are not the store's. They are left, and so is the directory.
   *
   * @return the names
   */
  public List<String> left() {
    return report.list("left");
  }

  /**
   * Whether the directory is left although nothing is in it.
   *
   * @return true if it is
   */
  public boolean isDirectoryLeft() {
    return Boolean.parseBoolean(report.word("is_directory_left"));
  }

  @Override
  public String toString() {
    return "DestroyReport[" + files() + " files, " + bytes() + " bytes]";
  }
}
