package org.slmdb;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Names with values, as the native library tells them. A name that is there several times is a list. */
final class Report {
  private final Map<String, List<String>> values = new LinkedHashMap<>();

  Report(String text) {
    int start = 0;
    while (start < text.length()) {
      int nameEnd = text.indexOf('\0', start);
      int valueEnd = text.indexOf('\0', nameEnd + 1);
      String name = text.substring(start, nameEnd);
      values.computeIfAbsent(name, unused -> new ArrayList<>(1)).add(text.substring(nameEnd + 1, valueEnd));
      start = valueEnd + 1;
    }
  }

  List<String> list(String name) {
    return Collections.unmodifiableList(values.getOrDefault(name, Collections.emptyList()));
  }

  /** The value, or null. */
  String word(String name) {
    List<String> list = list(name);
    return list.isEmpty() ? null : list.get(0);
  }

  long number(String name) {
    return Long.parseLong(word(name));
  }

  /** All values; each begins with a letter for its kind. */
  Map<String, Object> all() {
    Map<String, Object> all = new LinkedHashMap<>();
    values.forEach((name, list) -> all.put(name, typed(list.get(0))));
    return Collections.unmodifiableMap(all);
  }

  private static Object typed(String value) {
    String rest = value.substring(1);
    switch (value.charAt(0)) {
      case 'i':
        return Long.parseUnsignedLong(rest);
      case 'f':
        return Double.parseDouble(rest);
      default:
        return rest;
    }
  }
}
