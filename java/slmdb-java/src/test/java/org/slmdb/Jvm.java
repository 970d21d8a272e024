package org.slmdb;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Virtual machines of their own. */
final class Jvm {
  private Jvm() {}

  /** What one printed, and how it ended. */
  static final class Ended {
    final int status;
    final String printed;

    Ended(int status, String printed) {
      this.status = status;
      this.printed = printed;
    }

    @Override
    public String toString() {
      return "status " + status + ", printed:\n" + printed;
    }
  }

  /** Starts a class's main; both its outputs are one. */
  static Process start(List<String> options, Class<?> main, String... arguments) throws IOException {
    List<String> command = new ArrayList<>();
    command.add(Paths.get(System.getProperty("java.home"), "bin", "java").toString());
    command.add("-Xmx128m");
    command.addAll(options);
    command.addAll(Arrays.asList("-cp", System.getProperty("java.class.path"), main.getName()));
    command.addAll(Arrays.asList(arguments));
    return new ProcessBuilder(command).redirectErrorStream(true).start();
  }

  /** Runs a class's main. */
  static Ended run(List<String> options, Class<?> main, String... arguments)
      throws IOException, InterruptedException {
    Process process = start(options, main, arguments);
    try (InputStream output = process.getInputStream()) {
      String printed = new String(output.readAllBytes(), StandardCharsets.UTF_8);
      process.waitFor(60, TimeUnit.SECONDS);
      return new Ended(process.exitValue(), printed);
    } finally {
      process.destroyForcibly();
    }
  }

  static Ended run(Class<?> main, Path directory) throws IOException, InterruptedException {
    return run(Arrays.asList(), main, directory.toString());
  }
}
