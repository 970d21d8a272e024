package org.slmdb;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LibraryTest {
  @TempDir Path directory;

  /** Opens a store twice, and prints what comes of it. */
  public static final class Opener {
    private Opener() {}

    public static void main(String[] arguments) {
      for (int turn = 0; turn < 2; turn++) {
        try (Db db = Db.open(Paths.get(arguments[0]))) {
          db.put(Bytes.of("key"), Bytes.of("value"));
          System.out.println("opened");
        } catch (SlmdbLibraryException failure) {
          System.out.println(failure.getMessage());
        }
      }
    }
  }

  private Jvm.Ended open(String... options) throws Exception {
    return Jvm.run(Arrays.asList(options), Opener.class, directory.resolve("db").toString());
  }

  private static Path libraryInJar() {
    URL url = NativeLibrary.class.getResource("native/" + NativeLibrary.platform() + "/libslmdb_java.so");
    return Paths.get(url.getPath());
  }

  @Test
  void aLibraryThatIsNotThereIsTold() throws Exception {
    Jvm.Ended ended = open("-Dslmdb.library.path=/no/such/place/libslmdb_java.so");
    List<String> lines = ended.printed.lines().collect(Collectors.toList());
    assertEquals(0, ended.status, ended.toString());
    assertEquals(2, lines.size(), ended.toString());
    for (String line : lines) {
      assertTrue(line.contains("no native library at /no/such/place/libslmdb_java.so"), line);
      assertTrue(line.contains("correct the property, or leave it out"), line);
    }
  }

  @Test
  void aNamedLibraryIsLoaded() throws Exception {
    Path library = libraryInJar();
    for (Path named : new Path[] {library, library.getParent()}) {
      assertEquals("opened\nopened\n", open("-Dslmdb.library.path=" + named).printed);
    }
    Path foreign = directory.resolve("libslmdb_java.so");
    Files.write(foreign, new byte[100]);
    String printed = open("-Dslmdb.library.path=" + foreign).printed;
    assertTrue(printed.contains("can't be loaded") && printed.contains("scripts/java-library"), printed);
  }

  @Test
  void theJarsLibraryIsPutWhereOnlyItsUserMayWrite() throws Exception {
    Path place = directory.resolve("new").resolve("place");
    String option = "-Dslmdb.library.directory=" + place;
    assertEquals("opened\nopened\n", open(option).printed);
    assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(place)));
    Path file = onlyFileIn(place);
    assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(file)));
    assertTrue(file.getFileName().toString().matches("libslmdb_java-[0-9a-f]{64}\\.so"), file.toString());

    // What is there under the name is used if it is the very same, and replaced if not.
    Object before = Files.getAttribute(file, "unix:ino");
    assertEquals("opened\nopened\n", open(option).printed);
    assertEquals(before, Files.getAttribute(file, "unix:ino"));
    byte[] bytes = Files.readAllBytes(file);
    bytes[bytes.length / 2] ^= 1;
    Files.write(file, bytes);
    assertEquals("opened\nopened\n", open(option).printed);
    assertNotEquals(before, Files.getAttribute(file, "unix:ino"));
    assertArrayEquals(Files.readAllBytes(libraryInJar()), Files.readAllBytes(onlyFileIn(place)));

    Files.setPosixFilePermissions(place, PosixFilePermissions.fromString("rwxrwxrwx"));
    String printed = open(option).printed;
    assertTrue(printed.contains("other users may write to " + place), printed);
    assertTrue(printed.contains("-Dslmdb.library.directory="), printed);
  }

  private static Path onlyFileIn(Path place) throws IOException {
    try (Stream<Path> files = Files.list(place)) {
      List<Path> list = files.collect(Collectors.toList());
      assertEquals(1, list.size(), list.toString());
      return list.get(0);
    }
  }

  @Test
  void aDirectoryThatCantBeMadeIsTold() throws Exception {
    Path file = directory.resolve("file");
    Files.write(file, new byte[0]);
    String printed = open("-Dslmdb.library.directory=" + file.resolve("place")).printed;
    assertTrue(printed.contains("can't be put into " + file) && printed.contains("name another directory"), printed);
  }

  @Test
  void whatTheSystemSaysIsToldWithAdvice() {
    Path file = Paths.get("/tmp/libslmdb_java.so");
    for (String[] pair : new String[][] {
      {"/tmp/x.so: failed to map segment from shared object: Operation not permitted", "noexec"},
      {"/tmp/x.so: version `GLIBC_2.99' not found", "glibc"},
      {"Error loading shared library ld-linux-x86-64.so.2: No such file", "glibc"},
      {"Native Library /tmp/x.so already loaded in another classloader", "one class loader"},
      {"/tmp/x.so: cannot open shared object file: wrong ELF class", "scripts/java-library"},
    }) {
      SlmdbLibraryException failure = NativeLibrary.refused(file, new UnsatisfiedLinkError(pair[0]));
      assertTrue(failure.getMessage().contains(pair[1]) && failure.getMessage().contains(pair[0]), failure.getMessage());
    }
  }

  @Test
  void twoClassLoadersHaveALibraryEach() throws Exception {
    List<URL> urls = new ArrayList<>();
    for (String part : System.getProperty("java.class.path").split(File.pathSeparator)) {
      urls.add(new File(part).toURI().toURL());
    }
    for (int turn = 0; turn < 2; turn++) {
      try (URLClassLoader loader =
          new URLClassLoader(urls.toArray(new URL[0]), ClassLoader.getPlatformClassLoader())) {
        Class<?> opener = loader.loadClass(Opener.class.getName());
        String[] arguments = {directory.resolve("db" + turn).toString()};
        opener.getMethod("main", String[].class).invoke(null, (Object) arguments);
        assertTrue(Files.exists(directory.resolve("db" + turn).resolve("MANIFEST")));
      }
    }
    Db.open(directory.resolve("db0")).close();
  }

  @Test
  void aLibraryOfAnotherVersionIsRefused() throws Exception {
    assertEquals(NativeLibrary.VERSION, versionOfParent());
    Db.open(directory.resolve("db")).close();
    assertEquals(NativeLibrary.VERSION, Native.version());
    assertThrows(SlmdbClosedException.class, () -> Native.sync(0));
  }

  /** The version in the project file, which the jar has. */
  private static String versionOfParent() throws IOException {
    String project = Files.readString(Paths.get("pom.xml"));
    return project.replaceAll("(?s).*<parent>.*?<version>(.*?)</version>.*", "$1");
  }
}
