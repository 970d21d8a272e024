package org.slmdb;

import java.lang.ref.Reference;
import java.nio.file.Path;
import java.util.Map;

/**
 * An open store: keys and values are byte arrays, and keys are ordered. Any number of threads may use it at once.
 *
 * <p>A put that has returned survives a kill of the process; with {@link WriteOption#SYNC} it survives a power cut, too. A key has at most
 * 65,535 bytes, a value at most 256 MiB; both may be empty.
 *
 * <p>One process at a time, and one {@code Db} in it, has a store open for writing. Close it: {@link #close} frees the store for
 * others, whatever cursors and snapshots there are. A store that is open when the virtual machine ends loses nothing.
 */
public final class Db extends Reader {
  private final Path path;

  private Db(Path path, long handle) {
    super(handle, "the store in " + path, null);
    this.path = path;
  }

  /**
   * Opens a store with the default options; makes it if it is missing.
   *
   * @param directory the store's directory
   * @return the open store
   * @throws SlmdbException as {@link #open(Path, Options)}
   */
  public static Db open(Path directory) {
    return open(directory, new Options());
  }

  /**
   * Opens a store.
   *
   * @param directory the store's directory
   * @param options how it is opened
   * @return the open store
   * @throws SlmdbLockedException if somebody has it open already
   * @throws SlmdbInvalidException if there is none and none shall be made, or the options contradict it
   * @throws SlmdbCorruptionException if its bytes are not what was written
   * @throws SlmdbUnsupportedException if another version made it, or its keys are in another order than that of their bytes
   * @throws SlmdbIOException if the system failed
   * @throws SlmdbLibraryException if the native library can't be loaded
   * @throws SlmdbClosedException if the options have a {@link Shared} that is closed
   */
  public static Db open(Path directory, Options options) {
    NativeLibrary.load();
    long handle;
    try {
      handle = Native.open(nameOf(directory), options.text(), options.sharedHandle());
    } finally {
      Reference.reachabilityFence(options);
    }
    try {
      return new Db(directory, handle);
    } catch (OutOfMemoryError noMemory) {
      Native.close(handle);
      throw noMemory;
    }
  }

  /**
   * Makes a store that nobody has open whole again from what can be read.
   *
   * @param directory the store's directory
   * @param options as for {@link #open(Path, Options)}; name the medium if its pool was moved
   * @return what was made, and what was lost
   * @throws SlmdbInvalidException if there is no store
   * @throws SlmdbLockedException if somebody has it open
   * @throws SlmdbCorruptionException if its list of files can't be read
   * @throws SlmdbFullException if there is no room for what is made
   */
  public static RepairReport repair(Path directory, Options options) {
    NativeLibrary.load();
    return new RepairReport(new Report(Native.repair(nameOf(directory), options.text())));
  }

  /**
   * Removes a store that nobody has open, and its pool. Files that are not the store's are left, and named in the report.
   *
   * @param directory the store's directory
   * @param options as for {@link #open(Path, Options)}; name the medium if its pool was moved
   * @return what was removed, and what was left
   * @throws SlmdbInvalidException if there is no store
   * @throws SlmdbLockedException if somebody has it open
   * @throws SlmdbIOException if the system failed; calling this again removes the rest
   */
  public static DestroyReport destroy(Path directory, Options options) {
    NativeLibrary.load();
    return new DestroyReport(new Report(Native.destroy(nameOf(directory), options.text())));
  }

  /** A path as the native library takes it. */
  static String nameOf(Path path) {
    return path.toAbsolutePath().toFile().getPath();
  }

  @Override
  Db db() {
    return this;
  }

  /**
   * The directory that it was opened at.
   *
   * @return its path
   */
  public Path path() {
    return path;
  }

  /**
   * Sets the value of a key.
   *
   * @param key the key
   * @param value its value
   * @throws SlmdbInvalidException if key or value is too long
   * @throws SlmdbFullException if there is no room
   * @throws SlmdbReadOnlyException if the store takes no writes
   * @throws SlmdbClosedException if it is closed
   */
  public void put(byte[] key, byte[] value) {
    put(key, value, Native.ALWAYS, Native.AS_OPENED);
  }

  /**
   * Sets the value of a key.
   *
   * @param key the key
   * @param value its value
   * @param option how it is written
   * @throws SlmdbException as {@link #put(byte[], byte[])}
   */
  public void put(byte[] key, byte[] value, WriteOption option) {
    put(key, value, Native.ALWAYS, option.number);
  }

  /**
   * Sets the value of a key that has none. Of all that insert a key at once exactly one is told true.
   *
   * @param key the key
   * @param value its value
   * @return true if it was set; false if the key had a value, which stays
   * @throws SlmdbException as {@link #put(byte[], byte[])}
   */
  public boolean insertIfAbsent(byte[] key, byte[] value) {
    return put(key, value, Native.IF_ABSENT, Native.AS_OPENED);
  }

  /**
   * Sets the value of a key that has none. With {@link WriteOption#SYNC} an answer of false survives a power cut, too.
   *
   * @param key the key
   * @param value its value
   * @param option how it is written
   * @return true if it was set; false if the key had a value, which stays
   * @throws SlmdbException as {@link #put(byte[], byte[])}
   */
  public boolean insertIfAbsent(byte[] key, byte[] value, WriteOption option) {
    return put(key, value, Native.IF_ABSENT, option.number);
  }

  /**
   * Sets the value of a key that has one already.
   *
   * @param key the key
   * @param value its new value
   * @return true if it was set; false if the key had no value, and has none
   * @throws SlmdbException as {@link #put(byte[], byte[])}
   */
  public boolean updateIfPresent(byte[] key, byte[] value) {
    return put(key, value, Native.IF_PRESENT, Native.AS_OPENED);
  }

  /**
   * Sets the value of a key that has one already.
   *
   * @param key the key
   * @param value its new value
   * @param option how it is written
   * @return true if it was set; false if the key had no value, and has none
   * @throws SlmdbException as {@link #put(byte[], byte[])}
   */
  public boolean updateIfPresent(byte[] key, byte[] value, WriteOption option) {
    return put(key, value, Native.IF_PRESENT, option.number);
  }

  private boolean put(byte[] key, byte[] value, int condition, int sync) {
    try {
      Scratch scratch = Scratch.with(key, value);
      boolean isPut =
          Native.put(
              resource.handle, scratch.address, scratch.capacity, key.length, value.length, condition, sync);
      Reference.reachabilityFence(scratch);
      return isPut;
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Removes a key and its value. A key without a value is no error.
   *
   * @param key the key
   * @throws SlmdbException as {@link #put(byte[], byte[])}
   */
  public void delete(byte[] key) {
    delete(key, Native.AS_OPENED);
  }

  /**
   * Removes a key and its value. A key without a value is no error.
   *
   * @param key the key
   * @param option how it is written
   * @throws SlmdbException as {@link #put(byte[], byte[])}
   */
  public void delete(byte[] key, WriteOption option) {
    delete(key, option.number);
  }

  private void delete(byte[] key, int sync) {
    try {
      Scratch scratch = Scratch.with(key);
      Native.delete(resource.handle, scratch.address, scratch.capacity, key.length, sync);
      Reference.reachabilityFence(scratch);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Removes all keys of a range and their values, at one moment. It takes the same time whatever the range holds.
   * Snapshots and cursors that were made before see what was there.
   *
   * @param from the first key of the range, or null
   * @param to the first key behind the range, or null
   * @throws SlmdbException as {@link #put(byte[], byte[])}
   */
  public void deleteRange(byte[] from, byte[] to) {
    deleteRange(from, to, Native.AS_OPENED);
  }

  /**
   * Removes all keys of a range and their values, at one moment.
   *
   * @param from the first key of the range, or null
   * @param to the first key behind the range, or null
   * @param option how it is written
   * @throws SlmdbException as {@link #put(byte[], byte[])}
   */
  public void deleteRange(byte[] from, byte[] to, WriteOption option) {
    deleteRange(from, to, option.number);
  }

  private void deleteRange(byte[] from, byte[] to, int sync) {
    try {
      Scratch scratch = Scratch.with(from, to);
      Native.deleteRange(resource.handle, scratch.address, scratch.capacity, length(from), length(to), sync);
      Reference.reachabilityFence(scratch);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Writes a batch: readers see all of it or nothing, and so does recovery after any crash.
   *
   * @param batch the batch; it stays as it is
   * @throws SlmdbException as {@link #put(byte[], byte[])}
   */
  public void write(WriteBatch batch) {
    write(batch, Native.AS_OPENED);
  }

  /**
   * Writes a batch: readers see all of it or nothing, and so does recovery after any crash.
   *
   * @param batch the batch; it stays as it is
   * @param option how it is written
   * @throws SlmdbException as {@link #put(byte[], byte[])}
   */
  public void write(WriteBatch batch, WriteOption option) {
    write(batch, option.number);
  }

  private void write(WriteBatch batch, int sync) {
    try {
      Scratch scratch = batch.packed();
      Native.write(resource.handle, scratch.address, scratch.capacity, batch.byteSize(), sync);
      Reference.reachabilityFence(scratch);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * The store as it is at this moment, to be read for as long as one likes. Close it.
   *
   * @return the snapshot
   * @throws SlmdbClosedException if the store is closed
   */
  public Snapshot snapshot() {
    try {
      return new Snapshot(this, Native.snapshot(resource.handle));
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Makes everything written so far survive a power cut.
   *
   * @throws SlmdbIOException if the system failed
   * @throws SlmdbClosedException if the store is closed
   */
  public void sync() {
    try {
      Native.sync(resource.handle);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Brings everything written so far out of MemTables and into table files. It is never needed for safety.
   *
   * @throws SlmdbFullException if there is no room
   * @throws SlmdbClosedException if the store is closed
   */
  public void flush() {
    try {
      Native.flush(resource.handle);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Merges the table files with keys of a range, so that nothing obsolete is left in them but what snapshots and cursors
   * see. It is never needed; the store compacts by itself what is worth it. Reads and writes go on.
   *
   * @param from the first key of the range, or null
   * @param to the first key behind the range, or null
   * @throws SlmdbFullException if there is no room for the new files beside the old ones
   * @throws SlmdbClosedException if the store is closed
   */
  public void compactRange(byte[] from, byte[] to) {
    try {
      Scratch scratch = Scratch.with(from, to);
      Native.compactRange(resource.handle, scratch.address, scratch.capacity, length(from), length(to));
      Reference.reachabilityFence(scratch);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * About how much is in a range. It takes some milliseconds at most.
   *
   * @param from the first key of the range, or null
   * @param to the first key behind the range, or null
   * @return the estimate
   * @throws SlmdbClosedException if the store is closed
   */
  public Approximate approximate(byte[] from, byte[] to) {
    try {
      Scratch scratch = Scratch.with(from, to);
      Native.approximate(resource.handle, scratch.address, scratch.capacity, length(from), length(to));
      scratch.buffer.clear();
      return new Approximate(scratch.buffer.getLong(), scratch.buffer.getLong(), scratch.buffer.getLong());
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Makes a copy of the store while reads and writes go on. Table files are shared where the file system can link them.
   *
   * @param directory the copy's directory, which is new or empty
   * @throws SlmdbInvalidException if something is there
   * @throws SlmdbFullException if there is no room
   * @throws SlmdbClosedException if the store is closed
   */
  public void checkpoint(Path directory) {
    try {
      Native.checkpoint(resource.handle, nameOf(directory));
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * What the store holds and has done: the numbers of the command {@code slmdb stats --json} under their names, those that are within
   * others with dots between, as in {@code "since_open.puts"}. Sizes are in bytes, times in microseconds, where their names
   * say so.
   *
   * @return a {@link Long}, a {@link Double} or a {@link String} for each name
   * @throws SlmdbClosedException if the store is closed
   */
  public Map<String, Object> stats() {
    try {
      return new Report(Native.stats(resource.handle)).all();
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * What the store holds and has done, as the command {@code slmdb stats --json} prints it.
   *
   * @return a JSON object
   * @throws SlmdbClosedException if the store is closed
   */
  public String statsJson() {
    try {
      return Native.statsJson(resource.handle);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * The table files, as the command {@code slmdb stats --files --json} prints them.
   *
   * @return a JSON array with an object for each file
   * @throws SlmdbClosedException if the store is closed
   */
  public String tableFilesJson() {
    try {
      return Native.tableFilesJson(resource.handle);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Checks everything against everything else. Reads and writes go on, flushes wait.
   *
   * @return what is wrong, if anything is
   * @throws SlmdbIOException if the checking itself failed
   * @throws SlmdbClosedException if the store is closed
   */
  public VerifyReport verify() {
    try {
      return new VerifyReport(new Report(Native.verify(resource.handle)));
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Waits for calls of other threads, ends all cursors and snapshots of the store, closes it and frees it for others. Later calls get a
   * {@link SlmdbClosedException}. Closing it again changes nothing; of several threads at once one closes it, and the others
   * wait.
   *
   * @throws SlmdbException if what was written last could not be made durable; the store is closed, and the next opening recovers
   */
  @Override
  public void close() {
    synchronized (resource) {
      resource.close();
    }
  }

  @Override
  public String toString() {
    return "Db[" + path + "]";
  }
}
