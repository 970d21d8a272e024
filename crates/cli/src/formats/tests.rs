//! Every format on small inputs: what it takes, what it refuses and on which line, and that what it writes comes back.

use std::path::Path;

use super::*;

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Record(Vec<u8>, Vec<u8>),
    Bad(u64, u64),
}

fn good(key: &str, value: &str) -> Seen {
    Seen::Record(key.as_bytes().to_vec(), value.as_bytes().to_vec())
}

fn read_all(mut reader: Box<dyn Reader + '_>) -> Vec<Seen> {
    let (mut seen, mut record) = (Vec::new(), Record::default());
    loop {
        match reader.next(&mut record).unwrap() {
            Step::Record => seen.push(Seen::Record(record.key.clone(), record.value.clone())),
            Step::Malformed(malformed) => {
                assert!(!malformed.why.is_empty() && !malformed.why.contains('\n'));
                seen.push(Seen::Bad(malformed.line, malformed.offset));
            }
            Step::End => return seen,
        }
    }
}

fn read(format: ImportFormat, key: Option<&str>, input: &[u8]) -> Vec<Seen> {
    read_all(reader(format, key, Box::new(input)))
}

#[test]
fn tsv_takes_escapes_and_keeps_bytes_exact() {
    let input =
        b"a\t1\nb\\tc\t\\x00\\\\\nwindows\tline\r\ntwo\ttabs\there\n\tempty key\nempty value\t\nlast\tno line feed";
    let expected = [
        good("a", "1"),
        good("b\tc", "\0\\"),
        good("windows", "line"),
        good("two", "tabs\there"),
        good("", "empty key"),
        good("empty value", ""),
        good("last", "no line feed"),
    ];
    assert_eq!(read(ImportFormat::Tsv, None, input), expected);
    assert_eq!(read(ImportFormat::Tsv, None, b""), []);
}

#[test]
fn tsv_tells_the_line_that_is_wrong_and_goes_on_behind_it() {
    let input = b"a\t1\nno tab\n\nbad\\q\t1\nkey\tbad\\x1\nb\t2\n";
    let expected = [good("a", "1"), Seen::Bad(2, 4), Seen::Bad(4, 12), Seen::Bad(5, 20), good("b", "2")];
    assert_eq!(read(ImportFormat::Tsv, None, input), expected);
}

#[test]
fn lines_without_end_are_passed_over_in_bounded_memory() {
    let input = format!("a\t1\n{}\nb\t2\n{}", "x".repeat(1000), "y".repeat(1000));
    let mut lines = Lines::with_maximum(input.as_bytes(), 10);
    let mut line = Vec::new();
    let mut found = Vec::new();
    loop {
        let next = lines.next(&mut line).unwrap();
        assert!(line.len() <= 10);
        found.push((next, lines.number(), lines.start()));
        if found.last().unwrap().0 == Line::End {
            break;
        }
    }
    let expected = [
        (Line::Whole, 1, 0),
        (Line::TooLong, 2, 4),
        (Line::Whole, 3, 1005),
        (Line::TooLong, 4, 1009),
        (Line::End, 4, 2009),
    ];
    assert_eq!(found, expected);
    let mut lines = Lines::with_maximum(&b"0123456789\n0123456789"[..], 10);
    assert_eq!(lines.next(&mut line).unwrap(), Line::Whole);
    assert_eq!(lines.next(&mut line).unwrap(), Line::Whole);
    assert_eq!(line, b"0123456789");
}

#[test]
fn jsonl_takes_pairs() {
    let input = br#"{"key":"a","value":"1"}
{"value":"\u0000\n\u00e9","key":"b"}

{"key_b64":"/wA=","value_b64":""}
"#;
    let expected = [good("a", "1"), good("b", "\0\né"), Seen::Record(vec![0xff, 0], vec![])];
    assert_eq!(read(ImportFormat::Jsonl, None, input), expected);
}

#[test]
fn jsonl_refuses_what_it_could_not_keep() {
    for line in [
        "not json",
        "[]",
        "\"text\"",
        "{",
        r#"{"key":"a"}"#,
        r#"{"value":"a"}"#,
        r#"{"key":1,"value":"1"}"#,
        r#"{"key":"a","value":null}"#,
        r#"{"key":"a","value":{}}"#,
        r#"{"key":"a","key_b64":"YQ==","value":""}"#,
        r#"{"key_b64":"!","value":""}"#,
        r#"{"key_b64":"YQ","value":""}"#,
        r#"{"key":"a","value":"1","more":2}"#,
        r#"{"key":"\ud800","value":"1"}"#,
        r#"{"key":"a","value":"1"} {"key":"a","value":"1"}"#,
        "{\"key\":\"\u{1}\",\"value\":\"1\"}",
        &"[".repeat(100_000),
    ] {
        assert_eq!(read(ImportFormat::Jsonl, None, line.as_bytes()), [Seen::Bad(1, 0)], "{line:.80}");
    }
    assert_eq!(read(ImportFormat::Jsonl, None, b"{\"key\":\"\xff\",\"value\":\"\"}"), [Seen::Bad(1, 0)]);
}

#[test]
fn jsonl_by_field_keeps_the_whole_line() {
    let input = r#"{"id":"a","more":[1,2,{"x":null}]}
{ "id" : 12345678901234567890123 }
{"id":1.50}
{"id":true}
{"id":null}
{"id":["a"]}
{"other":"a"}
{"id":"wrapped\tkey"}"#;
    let expected = [
        good("a", r#"{"id":"a","more":[1,2,{"x":null}]}"#),
        good("12345678901234567890123", r#"{ "id" : 12345678901234567890123 }"#),
        good("1.50", r#"{"id":1.50}"#),
        good("true", r#"{"id":true}"#),
        Seen::Bad(5, 94),
        Seen::Bad(6, 106),
        Seen::Bad(7, 119),
        good("wrapped\tkey", r#"{"id":"wrapped\tkey"}"#),
    ];
    assert_eq!(read(ImportFormat::Jsonl, Some("id"), input.as_bytes()), expected);
}

#[test]
fn paragraphs_are_stanzas() {
    let input = b"\n\nPackage: bash\nDescription: a shell\n of sorts\n .\n\tand more\n \nVersion: 5\nPACKAGE:  zsh  \n\n\n \t\nPackage: last\nX:";
    let expected = [
        good("bash", "Package: bash\nDescription: a shell\n of sorts\n .\n\tand more"),
        good("zsh", "Version: 5\nPACKAGE:  zsh  "),
        good("last", "Package: last\nX:"),
    ];
    assert_eq!(read(ImportFormat::Paragraphs, Some("package"), input), expected);
    assert_eq!(read(ImportFormat::Paragraphs, Some("Package"), b"\n\n"), []);
}

#[test]
fn paragraphs_may_end_their_lines_as_on_windows() {
    let input = b"Package: a\r\nV: 1\r\n\r\nPackage: b\r\n";
    let expected = [good("a", "Package: a\nV: 1"), good("b", "Package: b")];
    assert_eq!(read(ImportFormat::Paragraphs, Some("Package"), input), expected);
}

#[test]
fn paragraphs_name_the_line_that_is_wrong() {
    let input = b"Package: a\n\nVersion: 1\nSection: x\n\nPackage: b\nno colon\nnor here\n\n continuation\nPackage: c\n\nPackage:\n\n: d\nPackage: d\n\nPackage: e\n";
    let expected = [
        good("a", "Package: a"),
        Seen::Bad(3, 12),
        Seen::Bad(7, 46),
        Seen::Bad(10, 65),
        Seen::Bad(13, 91),
        Seen::Bad(15, 101),
        good("e", "Package: e"),
    ];
    assert_eq!(read(ImportFormat::Paragraphs, Some("Package"), input), expected);
}

#[test]
fn the_first_of_two_key_fields_counts() {
    let input = b"Package: first\nPackage: second\n";
    assert_eq!(
        read(ImportFormat::Paragraphs, Some("Package"), input),
        [good("first", "Package: first\nPackage: second")]
    );
}

#[test]
fn what_is_exported_comes_back() {
    let mut pieces: Vec<Vec<u8>> =
        vec![vec![], b"\"\"".to_vec(), b"\xff\xfe".to_vec(), "日本\u{2028}".as_bytes().to_vec()];
    pieces.extend((0..=255u8).map(|byte| vec![byte]));
    pieces.push((0..=255u8).collect());
    pieces.push(b"{\"key\":\"\\u0000\"}\\x00\\".to_vec());
    for (writer, format) in [(ExportFormat::Tsv, ImportFormat::Tsv), (ExportFormat::Jsonl, ImportFormat::Jsonl)] {
        let mut text = Vec::new();
        let mut expected = Vec::new();
        for (position, piece) in pieces.iter().enumerate() {
            let value = &pieces[pieces.len() - 1 - position];
            writer.write_record(&mut text, piece, value);
            expected.push(Seen::Record(piece.clone(), value.clone()));
        }
        assert_eq!(text.iter().filter(|&&byte| byte == b'\n').count(), pieces.len());
        std::str::from_utf8(&text).unwrap();
        assert_eq!(read(format, None, &text), expected);
    }
}

#[test]
fn formats_by_name() {
    assert_eq!(ImportFormat::by_name(Path::new("x.tsv")), ImportFormat::Tsv);
    assert_eq!(ImportFormat::by_name(Path::new("a/x.JSONL")), ImportFormat::Jsonl);
    assert_eq!(ImportFormat::by_name(Path::new("x.ndjson")), ImportFormat::Jsonl);
    assert_eq!(ExportFormat::by_name(Path::new("x.json")), ExportFormat::Jsonl);
    assert_eq!(ExportFormat::by_name(Path::new("json")), ExportFormat::Tsv);
}
