package org.slmdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KillTest {
  private static final int KILLS = 4;

  @TempDir Path directory;

  private static Options options() {
    return new Options().memtableBytes(128 << 10).memoryBudgetBytes(16 << 20);
  }

  /** The child: puts numbers, from the argument on, and tells of each when the put has returned. */
  public static final class Writer {
    private Writer() {}

    public static void main(String[] arguments) {
      Db db = Db.open(Paths.get(arguments[0]), options());
      for (int number = Integer.parseInt(arguments[1]); ; number++) {
        if (number % 3 == 0) {
          db.write(new WriteBatch().put(Bytes.of(number), new byte[200]).put(Bytes.of(-1 - number), new byte[0]));
        } else {
          db.put(Bytes.of(number), new byte[200]);
        }
        System.out.println(number);
        System.out.flush();
      }
    }
  }

  @Test
  void aKilledProcessLosesNothingThatWasAcknowledged() throws Exception {
    Path path = directory.resolve("db");
    int acknowledged = -1;
    for (int kill = 0; kill < KILLS; kill++) {
      int first = acknowledged + 1;
      Process child = Jvm.start(Arrays.asList(), Writer.class, path.toString(), String.valueOf(first));
      try (BufferedReader lines =
          new BufferedReader(new InputStreamReader(child.getInputStream(), StandardCharsets.UTF_8))) {
        String line;
        // The kill comes at some moment, with lines on their way.
        while ((line = lines.readLine()) != null) {
          acknowledged = Integer.parseInt(line);
          if (acknowledged == first + 1000 + kill * 400) {
            // Not that of Process, which closes the stream that is read here.
            child.toHandle().destroyForcibly();
          }
        }
      }
      assertEquals(128 + 9, child.waitFor());
      assertTrue(acknowledged >= first + 1000);
      try (Db db = Db.open(path, options())) {
        for (int number = 0; number <= acknowledged; number++) {
          byte[] value = db.get(Bytes.of(number));
          assertTrue(value != null && value.length == 200, number + " of " + acknowledged);
          assertEquals(number % 3 == 0, db.containsKey(Bytes.of(-1 - number)));
        }
        assertTrue(db.verify().isClean());
      }
    }
  }
}
