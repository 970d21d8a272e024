package org.slmdb;

import java.math.BigInteger;
import java.nio.file.Path;
import java.nio.file.Paths;

/**
 * How long a get of a value of 100 bytes takes through Java. The example {@code get} of the crate {@code slmdb-java} measures the same
 * in Rust: the difference is what crossing costs.
 */
public final class GetTime {
  private static final int KEYS = 1000;
  private static final int GETS = 2_000_000;
  private static final int TURNS = 7;

  private GetTime() {}

  /** The argument is the store's directory. */
  public static void main(String[] arguments) {
    Path directory = Paths.get(arguments[0]);
    try (Db db = Db.open(directory)) {
      byte[][] keys = new byte[KEYS][];
      byte[] value = new byte[100];
      for (int number = 0; number < KEYS; number++) {
        keys[number] = new byte[16];
        byte[] digits = BigInteger.valueOf(number).toByteArray();
        System.arraycopy(digits, 0, keys[number], 16 - digits.length, digits.length);
        db.put(keys[number], value);
      }
      double best = Double.MAX_VALUE;
      long bytes = 0;
      for (int turn = 0; turn < TURNS; turn++) {
        long start = System.nanoTime();
        for (int number = 0; number < GETS; number++) {
          bytes += db.get(keys[number % KEYS]).length;
        }
        best = Math.min(best, (double) (System.nanoTime() - start) / GETS);
      }
      if (bytes != 100L * GETS * TURNS) {
        throw new IllegalStateException(bytes + " bytes");
      }
      System.out.printf("a get of 100 bytes through Java: %.0f ns, the best of %d turns%n", best, TURNS);
    }
  }
}
