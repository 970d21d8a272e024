//! Keys and values are bytes; command lines, `tsv` files and terminals want text. This is the way from one to the other.
//!
//! Written: `\t \n \r \\` and `\xHH`, where HH are two hexadecimal digits. Everything else stands for itself, so that
//! UTF-8 text reads as what it is. Read back, it gives the same bytes: [`escape`] and [`unescape`] are inverse.

/// Appends `bytes` to `into`, escaping `\`, control bytes, 0x7f and bytes that are not valid UTF-8, and nothing else.
pub fn escape_into(into: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        for &byte in chunk.valid().as_bytes() {
            match byte {
                b'\t' => into.extend_from_slice(b"\\t"),
                b'\n' => into.extend_from_slice(b"\\n"),
                b'\r' => into.extend_from_slice(b"\\r"),
                b'\\' => into.extend_from_slice(b"\\\\"),
                0..=0x1f | 0x7f => escape_byte(into, byte),
                _ => into.push(byte),
            }
        }
        for &byte in chunk.invalid() {
            escape_byte(into, byte);
        }
    }
}

fn escape_byte(into: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    into.extend_from_slice(&[b'\\', b'x', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// [`escape_into`], as a string: what it gives is always UTF-8.
pub fn escape(bytes: &[u8]) -> String {
    let mut escaped = Vec::with_capacity(bytes.len());
    escape_into(&mut escaped, bytes);
    String::from_utf8_lossy(&escaped).into_owned()
}

/// Appends to `into` the bytes that `text` stands for. An error says what is wrong with it; `into` then holds what came
/// before.
pub fn unescape_into(into: &mut Vec<u8>, text: &[u8]) -> Result<(), String> {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        into.extend_from_slice(&rest[..at]);
        let (byte, length) = match &rest[at + 1..] {
            [b't', ..] => (b'\t', 2),
            [b'n', ..] => (b'\n', 2),
            [b'r', ..] => (b'\r', 2),
            [b'\\', ..] => (b'\\', 2),
            [b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (digit(*high) << 4 | digit(*low), 4)
            }
            [b'x', ..] => return Err("`\\x` wants two hexadecimal digits after it".to_string()),
            [] => return Err("a `\\` at the end stands for nothing; write `\\\\` for a backslash".to_string()),
            [other, ..] => {
                let shown = escape(&[*other]);
                return Err(format!("`\\{shown}` is not an escape; there are `\\t \\n \\r \\\\ \\xHH`"));
            }
        };
        into.push(byte);
        rest = &rest[at + length..];
    }
    into.extend_from_slice(rest);
    Ok(())
}

/// The value of a hexadecimal digit that has been checked to be one.
fn digit(character: u8) -> u8 {
    match character {
        b'0'..=b'9' => character - b'0',
        b'a'..=b'f' => character - b'a' + 10,
        _ => character.wrapping_sub(b'A').wrapping_add(10),
    }
}

/// The bytes that `text` stands for.
pub fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    unescape_into(&mut bytes, text)?;
    Ok(bytes)
}

/// A key or value as an argument: unescaped while the command line is parsed, so that a bad escape is a usage error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word(pub Vec<u8>);

#[cfg(feature = "command")]
impl Word {
    /// How clap reads one.
    pub fn parser() -> impl clap::builder::TypedValueParser<Value = Word> {
        use clap::builder::{OsStringValueParser, TypedValueParser};
        use std::os::unix::ffi::OsStringExt;
        OsStringValueParser::new().try_map(|argument: std::ffi::OsString| unescape(&argument.into_vec()).map(Word))
    }
}

impl AsRef<[u8]> for Word {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_must_be_is_escaped() {
        assert_eq!(escape(b"plain key"), "plain key");
        assert_eq!(escape("Zürich 東京 \u{85}".as_bytes()), "Zürich 東京 \u{85}");
        assert_eq!(escape(b"a\tb\nc\rd\\e"), "a\\tb\\nc\\rd\\\\e");
        assert_eq!(escape(b"\0\x1b\x7f"), "\\x00\\x1b\\x7f");
        assert_eq!(escape(b"\xff\xc3("), "\\xff\\xc3(");
        assert_eq!(escape(b"\xe6\x9d"), "\\xe6\\x9d");
        assert_eq!(escape(b"\"'$`"), "\"'$`");
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(unescape(b"a\\tb\\nc\\rd\\\\e\\x00\\xFf\\x20").unwrap(), b"a\tb\nc\rd\\e\0\xff ");
        assert_eq!(unescape(b"\xff raw \xc3").unwrap(), b"\xff raw \xc3");
        assert_eq!(unescape(b"").unwrap(), b"");
    }

    #[test]
    fn what_is_no_escape_is_refused() {
        for wrong in ["\\", "\\q", "\\x", "\\x1", "\\xg0", "\\x0g", "\\T", "\\0", "a\\\\\\", "\\x+1"] {
            assert!(unescape(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(unescape(b"\\\n").unwrap_err().contains("`\\\\n`"));
    }

    #[test]
    fn every_byte_and_pair_of_bytes_comes_back() {
        for first in 0..=255u8 {
            assert_eq!(unescape(escape(&[first]).as_bytes()).unwrap(), [first]);
            for second in 0..=255u8 {
                let bytes = [first, second];
                let escaped = escape(&bytes);
                assert!(!escaped.bytes().any(|byte| byte < 0x20 || byte == 0x7f));
                assert_eq!(unescape(escaped.as_bytes()).unwrap(), bytes);
            }
        }
    }
}
