package org.slmdb;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Keys and values of tests. */
final class Bytes {
  private Bytes() {}

  static byte[] of(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  static byte[] of(int number) {
    return ByteBuffer.allocate(4).putInt(number).array();
  }

  static String text(byte[] bytes) {
    return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
  }

  static int number(byte[] bytes) {
    return ByteBuffer.wrap(bytes).getInt();
  }

  /** What is left of a cursor's way, as {@code key=value}. It is closed. */
  static List<String> rest(Cursor cursor, boolean backward) {
    try (cursor) {
      List<String> entries = new ArrayList<>();
      while (backward ? cursor.previous() : cursor.next()) {
        entries.add(text(cursor.key()) + "=" + text(cursor.value()));
      }
      return entries;
    }
  }
}
