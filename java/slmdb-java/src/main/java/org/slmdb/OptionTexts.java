package org.slmdb;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/** Options by their names, as the native library reads them. */
final class OptionTexts {
  private final Map<String, String> values = new LinkedHashMap<>();

  void set(String name, Object value) {
    String text = Objects.requireNonNull(value, name).toString();
    if (text.indexOf('\0') >= 0) {
      throw new SlmdbInvalidException("the option " + name + " has a zero character in its value; correct the request");
    }
    values.put(name, text);
  }

  /** A name, a zero character, the value, a zero character; and so on. */
  String text() {
    StringBuilder text = new StringBuilder();
    values.forEach((name, value) -> text.append(name).append('\0').append(value).append('\0'));
    return text.toString();
  }

  @Override
  public String toString() {
    return values.toString();
  }
}
