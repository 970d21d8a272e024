package org.slmdb;

import java.nio.file.Path;
import java.util.Objects;

/**
 * How a store is opened. Each method sets an option and returns this object. What is not set has slmdb's default.
 *
 * <p>A value that can't be is told by {@link Db#open} as {@link SlmdbInvalidException}. One thread at a time may set options; {@code
 * open} copies them.
 */
public final class Options {
  private final OptionTexts texts = new OptionTexts();
  private Shared shared;

  /** Options with slmdb's defaults. */
  public Options() {}

  private Options with(String name, Object value) {
    texts.set(name, value);
    return this;
  }

  /** As the native library reads them. */
  String text() {
    return texts.text();
  }

  /** The number of what the store has in common with others; 0 for nothing. */
  long sharedHandle() {
    return shared == null ? 0 : shared.handle();
  }

  /**
   * Whether a missing store is made. Default: true.
   *
   * @param yes whether it is
   * @return this
   */
  public Options createIfMissing(boolean yes) {
    return with("create_if_missing", yes);
  }

  /**
   * Whether a store that exists is an error. Default: false.
   *
   * @param yes whether it is
   * @return this
   */
  public Options errorIfExists(boolean yes) {
    return with("error_if_exists", yes);
  }

  /**
   * Opens for reading alone: nothing of the store changes, and any number of such openings share a store, but never with a
   * writer. Default: false.
   *
   * @param yes whether it is opened so
   * @return this
   */
  public Options readOnly(boolean yes) {
    return with("read_only", yes);
  }

  /**
   * The design that keeps a new store: {@code "slm"}, the default, which has all keys in an index in memory; {@code "lab"},
   * whose memory is bounded; or {@code "tlsm"}. A store keeps the engine that made it; naming another is an error.
   *
   * @param name its name
   * @return this
   */
  public Options engine(String name) {
    return with("engine", name);
  }

  /**
   * Where MemTables and index are: {@code "dram"}, {@code "emulated:PATH"} (a mapped file) or {@code "dax:PATH"} (persistent
   * memory). Default: what the store has; for a new one {@code "dram"}.
   *
   * @param medium one of these
   * @return this
   */
  public Options medium(String medium) {
    return with("medium", medium);
  }

  /**
   * A mapped file as the medium: {@code medium("emulated:PATH")}.
   *
   * @param pool the file
   * @return this
   */
  public Options emulatedMedium(Path pool) {
    return medium("emulated:" + Db.nameOf(pool));
  }

  /**
   * Persistent memory as the medium: {@code medium("dax:PATH")}.
   *
   * @param pool the file on it, or the device
   * @return this
   */
  public Options daxMedium(Path pool) {
    return medium("dax:" + Db.nameOf(pool));
  }

  /**
   * Whether the machine saves its processor caches to persistent memory when the power goes. Default: false. Nothing can check
   * this; where it is not so, true loses writes in a power cut.
   *
   * @param yes whether it does
   * @return this
   */
  public Options cachesArePersistent(boolean yes) {
    return with("caches_are_persistent", yes);
  }

  /**
   * Whether each write returns only when it survives a power cut. Default: false. {@link WriteOption} says it for one write.
   *
   * @param yes whether it does
   * @return this
   */
  public Options sync(boolean yes) {
    return with("sync", yes);
  }

  /**
   * Memory for everything that the store keeps in plain memory. Default: 256 MiB. It is not part of the Java heap.
   *
   * @param bytes how much
   * @return this
   */
  public Options memoryBudgetBytes(long bytes) {
    return with("memory_budget_bytes", bytes);
  }

  /**
   * The size of a MemTable. Default: 64 MiB; from 4 KiB to 1 GiB.
   *
   * @param bytes how much
   * @return this
   */
  public Options memtableBytes(long bytes) {
    return with("memtable_bytes", bytes);
  }

  /**
   * How many full MemTables may wait for their flush before writers wait. Default: 2.
   *
   * @param count how many
   * @return this
   */
  public Options immutableMemtablesMax(int count) {
    return with("immutable_memtables_max", count);
  }

  /**
   * The size of a table file's blocks before compression. Default: 4096; from 64 bytes to 1 MiB.
   *
   * @param bytes how much
   * @return this
   */
  public Options blockBytes(int bytes) {
    return with("block_bytes", bytes);
  }

  /**
   * How blocks are compressed that this opening writes: {@code "lz4"}, the default, {@code "none"}, or {@code "zstd"} in builds that
   * have it.
   *
   * @param name one of these
   * @return this
   */
  public Options compression(String name) {
    return with("compression", name);
  }

  /**
   * How many table files are held open at once. Default: 500.
   *
   * @param count how many
   * @return this
   */
  public Options openTablesMax(int count) {
    return with("open_tables_max", count);
  }

  /**
   * How table files are chosen for compaction: {@code "garbage-first"}, the default, {@code "manual"} (only {@link
   * Db#compactRange} compacts), or {@code "paper"}.
   *
   * @param name one of these
   * @return this
   */
  public Options compactionPolicy(String name) {
    return with("compaction_policy", name);
  }

  /**
   * How many compactions run at once. Default: as many as there are processors, from 2 to 4; from 1 to 4.
   *
   * @param count how many
   * @return this
   */
  public Options compactionThreads(int count) {
    return with("compaction_threads", count);
  }

  /**
   * How many times the size of the live data table files may take. Default: 1.4; from 1.01 to 100.
   *
   * @param times how many
   * @return this
   */
  public Options spaceAmplificationMax(double times) {
    return with("space_amplification_max", times);
  }

  /**
   * The first size of the pool. Default: 16 MiB.
   *
   * @param bytes how much
   * @return this
   */
  public Options poolInitialBytes(long bytes) {
    return with("pool_initial_bytes", bytes);
  }

  /**
   * By how much the pool grows at a time. Default: 64 MiB.
   *
   * @param bytes how much
   * @return this
   */
  public Options poolGrowthBytes(long bytes) {
    return with("pool_growth_bytes", bytes);
  }

  /**
   * The most that the pool may grow to. Default: 1 TiB.
   *
   * @param bytes how much
   * @return this
   */
  public Options poolMaximumBytes(long bytes) {
    return with("pool_maximum_bytes", bytes);
  }

  /**
   * What the store has in common with others of the process: background threads, a memory budget, open table files. Default: it
   * has its own. It takes the place of {@link #memoryBudgetBytes} and {@link #openTablesMax}; {@link #compactionThreads} may
   * still bound how many compactions of the store run at once. Worth it from a handful of stores on: a store by itself has five or
   * six threads.
   *
   * @param shared what is shared; {@link Db#open(Path, Options)} tells if it is closed
   * @return this
   */
  public Options shared(Shared shared) {
    this.shared = Objects.requireNonNull(shared, "shared");
    return this;
  }

  @Override
  public String toString() {
    return "Options" + texts + (shared == null ? "" : " with " + shared);
  }
}
