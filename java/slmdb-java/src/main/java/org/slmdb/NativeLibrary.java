package org.slmdb;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Locale;
import java.util.Set;

/**
 * Finds and loads the native library: the one that {@code slmdb.library.path} names, or the one in the jar, which is put into a
 * directory of this user's alone first.
 */
final class NativeLibrary {
  /** A system property: the library's file, or the directory that it is in. */
  static final String PATH_PROPERTY = "slmdb.library.path";

  /** A system property: the directory that the jar's library is put into. */
  static final String DIRECTORY_PROPERTY = "slmdb.library.directory";

  /** The version of the library that these classes go with. */
  static final String VERSION = "0.1.0";

  private static final Set<PosixFilePermission> OWNER_ALONE = PosixFilePermissions.fromString("rwx------");

  private static volatile boolean isLoaded;

  private NativeLibrary() {}

  /** Loads it, unless that is done. A failure is told each time. */
  static void load() {
    if (!isLoaded) {
      loadOnce();
    }
  }

  private static synchronized void loadOnce() {
    if (isLoaded) {
      return;
    }
    String path = System.getProperty(PATH_PROPERTY);
    Path loaded = path == null ? loadFromJar() : loadFrom(Paths.get(path));
    String version;
    try {
      version = Native.version();
    } catch (UnsatisfiedLinkError error) {
      throw new SlmdbLibraryException(loaded + " is not slmdb's library for Java: build it with scripts/java-library", error);
    }
    if (!version.equals(VERSION)) {
      throw new SlmdbLibraryException(
          loaded + " is of version " + version + ", and these classes are of version " + VERSION
              + "; use a library and a jar of one version",
          null);
    }
    isLoaded = true;
  }

  private static Path loadFrom(Path named) {
    Path file = Files.isDirectory(named) ? named.resolve(System.mapLibraryName("slmdb_java")) : named;
    if (!Files.isRegularFile(file)) {
      throw new SlmdbLibraryException(
          "there is no native library at " + file + ", where the system property " + PATH_PROPERTY
              + " says it is; correct the property, or leave it out to use the library in the jar",
          null);
    }
    try {
      System.load(file.toAbsolutePath().toString());
    } catch (UnsatisfiedLinkError error) {
      throw refused(file, error);
    }
    return file;
  }

  private static Path loadFromJar() {
    String resource = "native/" + platform() + "/" + System.mapLibraryName("slmdb_java");
    byte[] bytes;
    try (InputStream stream = NativeLibrary.class.getResourceAsStream(resource)) {
      if (stream == null) {
        throw new SlmdbLibraryException(
            "the jar has no native library for " + platform() + "; build one with scripts/java-library, and name it with -D"
                + PATH_PROPERTY + "=FILE",
            null);
      }
      bytes = stream.readAllBytes();
    } catch (IOException failure) {
      throw new SlmdbLibraryException("the native library in the jar can't be read: " + failure, failure);
    }
    Path directory = directory();
    try {
      Path file = extracted(directory, bytes);
      try {
        System.load(file.toString());
        return file;
      } catch (UnsatisfiedLinkError error) {
        if (!isOfOtherLoader(error)) {
          throw refused(file, error);
        }
      }
      // One file serves one class loader. This one gets a copy, which need not have a name once it is loaded.
      Path copy = temporary(directory, bytes);
      try {
        System.load(copy.toString());
      } catch (UnsatisfiedLinkError error) {
        throw refused(copy, error);
      } finally {
        Files.deleteIfExists(copy);
      }
      return copy;
    } catch (IOException failure) {
      throw new SlmdbLibraryException(
          "the native library can't be put into " + directory + ": " + failure + "; name another directory with -D"
              + DIRECTORY_PROPERTY + "=DIRECTORY",
          failure);
    }
  }

  /** The machine, as folders in the jar are named. */
  static String platform() {
    String machine = System.getProperty("os.arch", "").toLowerCase(Locale.ROOT);
    if (machine.equals("amd64")) {
      machine = "x86_64";
    } else if (machine.equals("arm64")) {
      machine = "aarch64";
    }
    return System.getProperty("os.name", "").toLowerCase(Locale.ROOT).replace(' ', '-') + "-" + machine;
  }

  private static Path directory() {
    String named = System.getProperty(DIRECTORY_PROPERTY);
    if (named != null) {
      return Paths.get(named).toAbsolutePath();
    }
    String user = System.getProperty("user.name", "").replaceAll("[^A-Za-z0-9._-]", "_");
    return Paths.get(System.getProperty("java.io.tmpdir"), "slmdb-java-" + user).toAbsolutePath();
  }

  /** The library's file in a directory: one that is there with these very bytes, or a new one. */
  static Path extracted(Path directory, byte[] bytes) throws IOException {
    if (!Files.isDirectory(directory)) {
      Files.createDirectories(directory.getParent());
      try {
        Files.createDirectory(directory, PosixFilePermissions.asFileAttribute(OWNER_ALONE));
      } catch (FileAlreadyExistsException other) {
        // Another process has made it, or it is no directory, which the next step tells.
      }
    }
    Path made = temporary(directory, new byte[0]);
    try {
      checkOwner(directory, made);
      Path file = directory.resolve("libslmdb_java-" + hash(bytes) + ".so");
      if (!hasBytes(file, bytes)) {
        Files.write(made, bytes);
        // At once, so that another process finds all of it or nothing.
        Files.move(made, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
      }
      return file;
    } finally {
      Files.deleteIfExists(made);
    }
  }

  private static Path temporary(Path directory, byte[] bytes) throws IOException {
    Path file =
        Files.createTempFile(directory, "libslmdb_java-", ".part", PosixFilePermissions.asFileAttribute(OWNER_ALONE));
    try {
      Files.write(file, bytes);
      return file;
    } catch (IOException | RuntimeException failure) {
      Files.deleteIfExists(file);
      throw failure;
    }
  }

  /** Refuses a directory in which others could put another library in the place of this one. */
  private static void checkOwner(Path directory, Path own) throws IOException {
    Set<PosixFilePermission> others = EnumSet.of(PosixFilePermission.GROUP_WRITE, PosixFilePermission.OTHERS_WRITE);
    others.retainAll(Files.getPosixFilePermissions(directory, LinkOption.NOFOLLOW_LINKS));
    boolean isOwn =
        Files.getOwner(directory, LinkOption.NOFOLLOW_LINKS).equals(Files.getOwner(own, LinkOption.NOFOLLOW_LINKS));
    if (!isOwn || !others.isEmpty()) {
      throw new SlmdbLibraryException(
          "other users may write to " + directory + ", so the native library is not taken from there; remove it, or name a"
              + " directory of your own with -D" + DIRECTORY_PROPERTY + "=DIRECTORY",
          null);
    }
  }

  private static boolean hasBytes(Path file, byte[] bytes) throws IOException {
    return Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)
        && Files.size(file) == bytes.length
        && Arrays.equals(Files.readAllBytes(file), bytes);
  }

  private static String hash(byte[] bytes) {
    try {
      StringBuilder text = new StringBuilder();
      for (byte part : MessageDigest.getInstance("SHA-256").digest(bytes)) {
        text.append(String.format("%02x", part));
      }
      return text.toString();
    } catch (NoSuchAlgorithmException missing) {
      throw new SlmdbLibraryException("this Java has no SHA-256, which every Java has", missing);
    }
  }

  private static boolean isOfOtherLoader(UnsatisfiedLinkError error) {
    return String.valueOf(error.getMessage()).contains("already loaded in another classloader");
  }

  /** Why the system refused a library, and what helps. */
  static SlmdbLibraryException refused(Path file, UnsatisfiedLinkError error) {
    String message = String.valueOf(error.getMessage());
    String advice;
    if (isOfOtherLoader(error)) {
      advice = "one file serves one class loader; leave " + PATH_PROPERTY + " out to use the library in the jar, which serves"
          + " several, or put slmdb into a class loader that both share";
    } else if (message.contains("failed to map segment") || message.contains("Operation not permitted")) {
      advice = "its file system may forbid to execute files (noexec); name a directory elsewhere with -D" + DIRECTORY_PROPERTY
          + "=DIRECTORY";
    } else if (message.contains("GLIBC") || message.contains("ld-linux") || message.contains("libc.so")) {
      advice = "it needs the C library glibc, of the version that the message names or newer; build it on this machine with"
          + " scripts/java-library, and name it with -D" + PATH_PROPERTY + "=FILE";
    } else {
      advice = "build it for this machine (" + platform() + ") with scripts/java-library, and name it with -D" + PATH_PROPERTY
          + "=FILE";
    }
    return new SlmdbLibraryException("the native library " + file + " can't be loaded: " + message + "; " + advice, error);
  }
}
