package org.slmdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The program of docs/guide/java.md compiles, and prints what the guide says. */
class GuideTest {
  @TempDir Path directory;

  /** The first block of a kind in the guide. */
  private static String block(String kind) throws IOException {
    String guide = Files.readString(Paths.get(System.getProperty("slmdb.guide")));
    int start = guide.indexOf("```" + kind + "\n");
    assertTrue(start >= 0, kind);
    start += kind.length() + 4;
    return guide.substring(start, guide.indexOf("```", start));
  }

  @Test
  void theProgramPrintsWhatTheGuideSays() throws Exception {
    Path source = directory.resolve("Fruits.java");
    Files.writeString(source, block("java"));
    String classPath = System.getProperty("java.class.path");
    int failed =
        ToolProvider.getSystemJavaCompiler()
            .run(null, null, null, "-Xlint:all", "-Werror", "-cp", classPath, "-d", directory.toString(), source.toString());
    assertEquals(0, failed);
    Process process =
        new ProcessBuilder(
                Paths.get(System.getProperty("java.home"), "bin", "java").toString(),
                "-cp", directory + ":" + classPath, "Fruits")
            .directory(directory.toFile())
            .redirectErrorStream(true)
            .start();
    String printed = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(block("text"), printed);
    assertEquals(0, process.waitFor());
  }
}
