//! What `import` is given: files from other systems, files given by mistake, and keys as they stand.

use crate::{Place, Ran};

/// Puts a mark in front that says which encoding of Unicode follows.
const MARK: &[u8] = b"\xef\xbb\xbf";

fn import_file(place: &Place, name: &str, content: &[u8], options: &[&str]) -> Ran {
    let file = place.file(name, content);
    place.run("import", &[options, &[&file]].concat())
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_key() {
    for (options, content, expected) in [
        (&[][..], &b"apple\tred\npear\tgreen\n"[..], "apple\tred\npear\tgreen\n"),
        (&["--format", "jsonl"], b"{\"key\":\"apple\",\"value\":\"red\"}", "apple\tred\n"),
        (&["--format", "jsonl", "--key", "id"], b"{\"id\":7}\n", "7\t{\"id\":7}\n"),
        (
            &["--format", "paragraphs", "--key", "Package"],
            b"Package: a\n\nPackage: b\n",
            "a\tPackage: a\nb\tPackage: b\n",
        ),
        (&[], b"\n\napple\tred\n", "apple\tred\n"),
    ] {
        let place = Place::new();
        import_file(&place, "marked", &[MARK, content].concat(), options).expect(0);
        assert_eq!(place.exported(), expected, "{options:?}");
    }
    let place = Place::new();
    let ran = import_file(&place, "mark alone", MARK, &[]);
    assert!(ran.expect(0).stderr.contains("no record was found"), "{ran:?}");
}

#[test]
fn a_key_that_begins_with_a_mark_is_exported_and_comes_back() {
    let place = Place::new();
    place.run("put", &["\\xef\\xbb\\xbfkey", "value"]).expect(0);
    for format in ["tsv", "jsonl"] {
        let ran = place.run("export", &["--format", format]);
        let copy = Place::new();
        copy.run_with_input("import", &["--format", format, "-"], &ran.expect(0).stdout).expect(0);
        copy.run("get", &["\\xef\\xbb\\xbfkey"]).printed("value\n");
    }
}

#[test]
fn what_is_no_text_in_utf_8_is_refused_by_name() {
    let bzip2 = b"BZh91AY&SY\x12\x34\x56\x78\x00\x00\x02\x41\x80\x00";
    let cases: [(&str, &[u8]); 15] = [
        ("UTF-16", b"\xff\xfea\0\t\x001\0\n\0"),
        ("UTF-16", b"\xfe\xff\0a\0\t\x001\0\n"),
        ("UTF-32", b"\xff\xfe\0\0a\0\0\0\t\0\0\x001\0\0\0\n\0\0\0"),
        ("UTF-32", b"\0\0\xfe\xff\0\0\0a\0\0\0\t\0\0\x001\0\0\0\n"),
        ("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\x03K4\xe42\xe2J\x02\0"),
        ("zstd", b"\x28\xb5\x2f\xfd\x04\x58\x21\0\0a\t1\n"),
        ("xz", b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4F"),
        ("bzip2", bzip2),
        ("LZ4", b"\x04\"M\x18dp\xb9\x04\0\0\x80a\t1\n"),
        ("ZIP", b"PK\x03\x04\x14\0\0\0\0\0a\t1\n"),
        ("7-Zip", b"7z\xbc\xaf\x27\x1c\0\x04"),
        ("SQLite", b"SQLite format 3\0\x10\0\x01\x01a\t1\n"),
        ("Parquet", b"PAR1\x15\x04\x15\x10a\t1\n"),
        ("lzop", b"\x89LZO\0\r\n\x1a\n\x10\x40"),
        ("Avro", b"Obj\x01\x04\x14avro.codec"),
    ];
    for (name, content) in cases {
        for options in
            [&[][..], &["--skip-bad"], &["--format", "jsonl", "--skip-bad"], &["--format", "paragraphs", "--key", "a"]]
        {
            let place = Place::new();
            for ran in [
                import_file(&place, "given by mistake", content, options),
                place.run_with_input("import", &[options, &["-"]].concat(), content),
            ] {
                ran.failed(3, "invalid");
                assert!(ran.stderr.contains(name), "{name}: {ran:?}");
            }
            assert!(!place.path("db").exists(), "{name}: nothing is made");
        }
    }
    let place = Place::new();
    let ran = import_file(&place, "u.tsv", b"\xff\xfea\0\t\x001\0\n\0", &[]);
    assert!(ran.stderr.contains("convert it to UTF-8") && ran.stderr.contains("iconv"), "{ran:?}");
}

#[test]
fn text_that_begins_as_other_files_do_is_text() {
    let place = Place::new();
    for key in ["BZh91AY&SY is how bzip2 begins", "S", "SQLite format 3", "PK", "PAR1", "7z", "Obj", "B", "BZh9"] {
        place.run_with_input("import", &["-"], format!("{key}\tv\n").as_bytes()).expect(0);
        place.run("get", &[key]).printed("v\n");
    }
}

#[test]
fn a_json_array_is_refused_before_anything_is_stored() {
    for array in
        ["[{\"id\":1},{\"id\":2}]\n", "\n [\n  {\"id\":1},\n  {\"id\":2}\n]\n", "\u{feff}[\n{\"id\":1}\n]\n", "[]"]
    {
        for options in [&["--key", "id"][..], &["--key", "id", "--skip-bad"], &["--skip-bad"]] {
            let place = Place::new();
            let ran = import_file(&place, "array.json", array.as_bytes(), options);
            ran.failed(3, "invalid");
            assert!(ran.stderr.contains("a JSON array") && ran.stderr.contains("jq -c '.[]'"), "{ran:?}");
            assert!(!place.path("db").exists());
        }
    }
}

#[test]
fn csv_and_json_given_as_tsv_are_named() {
    for (content, name) in [("id,name\n1,apple\n", "CSV"), ("{\"id\":1,\"name\":\"apple\"}\n", "--format jsonl")] {
        let place = Place::new();
        let ran = place.run_with_input("import", &["-"], content.as_bytes());
        ran.failed(3, "invalid");
        assert!(ran.stderr.contains("line 1 ") && ran.stderr.contains("no tab"), "{ran:?}");
        assert!(ran.stderr.contains(name), "{ran:?}");
    }
    // Among records with tabs it is one line that is wrong.
    let ran = Place::new().run_with_input("import", &["-"], b"a\t1\nwell, no tab\n");
    assert!(!ran.failed(3, "invalid").stderr.contains("CSV"), "{ran:?}");
}

#[test]
fn line_ends_of_windows_are_line_ends() {
    for (options, content, expected) in [
        (&[][..], "a\t1\r\nb\t2\\r\r\n\tboth\r\r\nlast\t3\r", "\tboth\\r\na\t1\nb\t2\\r\nlast\t3\n"),
        (&["--format", "jsonl"], "{\"key\":\"a\",\"value\":\"1\"}\r\n\r\n", "a\t1\n"),
        (&["--format", "jsonl", "--key", "id"], "{\"id\":1}\r\n{\"id\":2}\r\n", "1\t{\"id\":1}\n2\t{\"id\":2}\n"),
        (&["--format", "paragraphs", "--key", "P"], "P: a\r\nX: y\r\n\r\nP: b\r\n", "a\tP: a\\nX: y\nb\tP: b\n"),
    ] {
        let place = Place::new();
        place.run_with_input("import", &[options, &["-"]].concat(), content.as_bytes()).expect(0);
        assert_eq!(place.exported(), expected, "{options:?}");
    }
}

#[test]
fn blank_lines_are_passed_over_in_every_format() {
    for (options, content) in [
        (&[][..], "\n\r\na\t1\n\n  \n\nb\t2\n\r\n"),
        (&["--format", "jsonl"], "\n\r\n{\"key\":\"a\",\"value\":\"1\"}\n\n  \n{\"key\":\"b\",\"value\":\"2\"}\n\n"),
    ] {
        let place = Place::new();
        place.run_with_input("import", &[options, &["-"]].concat(), content.as_bytes()).expect(0);
        assert_eq!(place.exported(), "a\t1\nb\t2\n", "{options:?}");
    }
    let place = Place::new();
    place.run_with_input("import", &["-"], b"\t\n").expect(0);
    assert_eq!(place.exported(), "\t\n", "an empty key with an empty value is a record");
}

#[test]
fn a_key_is_the_text_that_stands_in_the_line() {
    let place = Place::new();
    let numbers = ["1E5", "1e5", "1E+5", "1.0", "1.50", "-0", "-7", "0", "1e-7", "12345678901234567890123", "-0.0E-00"];
    let lines: String = numbers.iter().map(|number| format!("{{\"id\" : {number} }}\n")).collect();
    place.run_with_input("import", &["--format", "jsonl", "--key", "id", "-"], lines.as_bytes()).expect(0);
    for number in numbers {
        place.run("get", &[number]).printed(&format!("{{\"id\" : {number} }}\n"));
    }
    assert_eq!(place.exported().lines().count(), numbers.len());
}

#[test]
fn a_field_given_twice_is_refused_by_name() {
    for (options, line, field) in [
        (&["--key", "id"][..], r#"{"id":"a","id":"b"}"#, "`id`"),
        (&["--key", "id"], r#"{"id":1,"x":2,"\u0069d":1}"#, "`id`"),
        (&[], r#"{"key":"a","value":"1","key":"b"}"#, "`key`"),
        (&[], r#"{"key":"a","value":"1","value":"1"}"#, "`value`"),
        (&[], r#"{"key_b64":"YQ==","value":"1","key_b64":"YQ=="}"#, "`key_b64`"),
    ] {
        let place = Place::new();
        let ran = place.run_with_input("import", &[&["--format", "jsonl"], options, &["-"]].concat(), line.as_bytes());
        ran.failed(3, "invalid");
        assert!(ran.stderr.contains(field) && ran.stderr.contains("twice"), "{line}: {ran:?}");
    }
}

/// It was called "not JSON".
#[test]
fn a_line_that_is_nested_deep_is_json() {
    for depth in [127, 128, 129, 10_000] {
        let place = Place::new();
        let line = format!("{{\"id\":1,\"x\":{}{}}}\n", "[".repeat(depth), "]".repeat(depth));
        place.run_with_input("import", &["--format", "jsonl", "--key", "id", "-"], line.as_bytes()).expect(0);
        place.run("get", &["1"]).printed(&line);
    }
}
