package org.slmdb;

/**
 * How much the stores of a {@link Shared} take together. Each method sets an option and returns this object. What is not set has
 * slmdb's default.
 *
 * <p>A value that can't be is told by {@link Shared#Shared(SharedOptions)} as {@link SlmdbInvalidException}. One thread at a time may
 * set options; the constructor copies them.
 */
public final class SharedOptions {
  private final OptionTexts texts = new OptionTexts();

  /** Options with slmdb's defaults. */
  public SharedOptions() {}

  private SharedOptions with(String name, Object value) {
    texts.set(name, value);
    return this;
  }

  /** As the native library reads them. */
  String text() {
    return texts.text();
  }

  /**
   * Memory for everything that the stores keep in plain memory, in bytes. Default: 256 MiB. It is not part of the Java heap.
   *
   * @param bytes how much
   * @return this
   */
  public SharedOptions memoryBudgetBytes(long bytes) {
    return with("memory_budget_bytes", bytes);
  }

  /**
   * How many compactions run at once. As many flushes do, but at most 2. Default: 2; from 1 to 4.
   *
   * @param count how many
   * @return this
   */
  public SharedOptions threads(int count) {
    return with("threads", count);
  }

  /**
   * How many table files are held open at once. Default: 500; at least 1.
   *
   * @param count how many
   * @return this
   */
  public SharedOptions openTablesMax(int count) {
    return with("open_tables_max", count);
  }

  @Override
  public String toString() {
    return "SharedOptions" + texts;
  }
}
