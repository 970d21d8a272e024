package org.slmdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** slmdb shares a process with the virtual machine, which has habits of its own. */
class VirtualMachineTest {
  @TempDir Path directory;

  /** Reads from mappings whose files were cut: first the store's, then one of Java's. */
  public static final class Faults {
    private Faults() {}

    public static void main(String[] arguments) throws IOException {
      Path path = Paths.get(arguments[0]);
      try (Db db = Db.open(path, new Options().compression("none").memoryBudgetBytes(4 << 20))) {
        for (int number = 0; number < 1000; number++) {
          db.put(Bytes.of(number), new byte[20_000]);
        }
        db.flush();
        for (int number = 0; number < 1000; number++) {
          db.get(Bytes.of(number));
        }
        if (!db.stats().get("mapped_table_files").equals(0L)) {
          System.out.println("mapped");
        }
        for (File file : path.toFile().listFiles((unused, name) -> name.endsWith(".sst"))) {
          cut(file);
        }
        int failures = 0;
        for (int number = 0; number < 1000; number++) {
          try {
            db.get(Bytes.of(number));
          } catch (SlmdbException failure) {
            failures++;
          }
        }
        System.out.println(failures > 500 ? "the store's faults are exceptions" : failures + " failures");
        faultOfJava(path.resolveSibling("mapped"));
      } catch (SlmdbException failure) {
        System.out.println("closing: " + failure.getMessage());
      }
    }

    private static void cut(File file) throws IOException {
      try (RandomAccessFile open = new RandomAccessFile(file, "rw")) {
        open.setLength(0);
      }
    }

    private static void faultOfJava(Path file) throws IOException {
      try (RandomAccessFile open = new RandomAccessFile(file.toFile(), "rw")) {
        open.setLength(1 << 20);
        MappedByteBuffer mapped = open.getChannel().map(FileChannel.MapMode.READ_ONLY, 0, 1 << 20);
        open.setLength(0);
        System.out.println(mapped.get(500_000));
      } catch (InternalError fault) {
        System.out.println("Java's fault is an error");
      }
    }
  }

  @Test
  void faultsInMappedFilesAreExceptionsOfTheirOwners() throws Exception {
    Jvm.Ended ended = Jvm.run(Faults.class, directory.resolve("db"));
    assertEquals(0, ended.status, ended.toString());
    String printed = ended.printed.lines().filter(line -> !line.startsWith("closing")).reduce("", (a, b) -> a + b + "\n");
    assertEquals("mapped\nthe store's faults are exceptions\nJava's fault is an error\n", printed);
  }

  /** Uses a store in a class loader of its own, lets go of that, and tells whether the library is still mapped. */
  public static final class Loaders {
    private Loaders() {}

    public static void main(String[] arguments) throws Exception {
      WeakReference<ClassLoader> loader = use(arguments[0]);
      for (int turn = 0; turn < 500 && loader.get() != null; turn++) {
        System.gc();
        Thread.sleep(10);
      }
      System.out.println(loader.get() == null ? "collected" : "still there");
      boolean isMapped = Files.readString(Paths.get("/proc/self/maps")).contains("libslmdb_java");
      System.out.println(isMapped ? "mapped" : "not mapped");
      Faults.faultOfJava(Paths.get(arguments[0]).resolveSibling("mapped"));
    }

    private static WeakReference<ClassLoader> use(String path) throws Exception {
      List<URL> urls = new ArrayList<>();
      for (String part : System.getProperty("java.class.path").split(File.pathSeparator)) {
        urls.add(new File(part).toURI().toURL());
      }
      URLClassLoader loader = new URLClassLoader(urls.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
      // What maps its table files installs a handler of signals.
      loader.loadClass(Faults.class.getName()).getMethod("main", String[].class)
          .invoke(null, (Object) new String[] {path});
      loader.close();
      return new WeakReference<>(loader);
    }
  }

  @Test
  void theLibraryStaysWhenItsClassLoaderGoes() throws Exception {
    List<String> options = Arrays.asList("-XX:SoftRefLRUPolicyMSPerMB=0");
    Jvm.Ended ended = Jvm.run(options, Loaders.class, directory.resolve("db").toString());
    assertEquals(0, ended.status, ended.toString());
    String printed = ended.printed.lines().skip(ended.printed.lines().count() - 3).reduce("", (a, b) -> a + b + "\n");
    assertEquals("collected\nmapped\nJava's fault is an error\n", printed);
  }

  /** Calls every kind of native function, failing ones, too. */
  public static final class Calls {
    private Calls() {}

    public static void main(String[] arguments) {
      Path path = Paths.get(arguments[0]);
      try (Db db = Db.open(path)) {
        for (int number = 0; number < 3000; number++) {
          db.put(Bytes.of(number), new byte[number]);
          db.get(Bytes.of(number));
        }
        try (Cursor cursor = db.snapshot().cursor()) {
          while (cursor.next()) {
            cursor.value();
          }
        }
        db.stats();
        db.verify();
        try {
          Db.open(path);
        } catch (SlmdbLockedException expected) {
          System.out.println("locked");
        }
        try {
          db.put(new byte[70_000], new byte[0]);
        } catch (SlmdbInvalidException expected) {
          System.out.println("invalid");
        }
      }
    }
  }

  @Test
  void theVirtualMachinesChecksOfNativeCodeFindNothing() throws Exception {
    Jvm.Ended ended =
        Jvm.run(Arrays.asList("-Xcheck:jni"), Calls.class, directory.resolve("db").toString());
    assertEquals(0, ended.status, ended.toString());
    assertFalse(ended.printed.contains("in native method"), ended.toString());
    assertEquals(2, ended.printed.lines().filter(line -> line.equals("locked") || line.equals("invalid")).count());
  }
}
