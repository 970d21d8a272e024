//! `import` and `export`.

use crate::Place;

/// Records with every byte in them, as tsv.
fn hostile_records() -> String {
    let mut text = String::from("\tempty key\n");
    for byte in 0..=255u8 {
        text.push_str(&format!("k\\x{byte:02x}\tv\\x{byte:02x}\\x{:02x}\n", 255 - byte));
    }
    text.push_str("long\t");
    text.push_str(&"0123456789".repeat(20_000));
    text.push_str("\nno value\t\n日本\té\\\\\n");
    text
}

#[test]
fn what_is_exported_comes_back_in_either_format() {
    let place = Place::new();
    place.run_with_input("import", &["-"], hostile_records().as_bytes()).expect(0);
    let exported = place.exported();
    assert_eq!(exported.lines().count(), 260);
    for (file, format) in
        [("out.tsv", None), ("out.jsonl", None), ("out.bin", Some("jsonl")), ("other.json", Some("tsv"))]
    {
        let path = place.path(file).to_str().unwrap().to_string();
        let options: Vec<&str> = format.map_or(vec![], |format| vec!["--format", format]);
        place.run("export", &[&options[..], &[&path]].concat()).printed("");
        let copy = Place::new();
        let ran = copy.run("import", &[&options[..], &[&path]].concat());
        ran.expect(0);
        assert!(ran.stderr.starts_with("imported 260, skipped 0 in "), "{}", ran.stderr);
        assert_eq!(copy.exported(), exported);
        copy.run("verify", &[]).expect(0);
    }
    assert!(place.run("export", &["--format", "jsonl", "-"]).expect(0).out().starts_with("{\"key\":\"\",\"value\":"));
}

#[test]
fn the_last_line_has_its_form() {
    let place = Place::new();
    let ran = place.run_with_input("import", &["--skip-bad", "-"], b"a\t1\nbad\nb\t2\nb\t3\n");
    ran.expect(0);
    assert_eq!(ran.out(), "");
    let last = ran.stderr.lines().last().unwrap();
    let words: Vec<&str> = last.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let shape = ["imported", "3", "skipped", "1", "in", "S", "s:", "R", "keys/s", "B", "MB/s"];
    assert_eq!(words.len(), shape.len(), "{last}");
    for (word, shape) in words.iter().zip(shape) {
        assert!(*word == shape || (shape.len() == 1 && word.parse::<f64>().is_ok()), "{last}");
    }
    place.run("scan", &[]).printed("a\t1\nb\t3\n");
}

/// A malformed line is told with its number and what came before it is in.
#[test]
fn a_malformed_line_is_told_with_its_number() {
    let place = Place::new();
    let mut input = String::new();
    for number in 1..=1500 {
        input.push_str(&format!("{number:05}\tx\n"));
    }
    input.push_str("no tab here\nlater\tx\n");
    let file = place.file("input.tsv", &input);
    let ran = place.run("import", &[&file]);
    ran.failed(3, "invalid");
    assert!(ran.stderr.contains("line 1501 ") && ran.stderr.contains(&format!("[{file}@12000]")), "{}", ran.stderr);
    assert_eq!(place.exported().lines().count(), 1500);
    let ran = place.run("import", &["--skip-bad", &file]);
    assert!(ran.expect(0).stderr.starts_with("imported 1501, skipped 1 in "), "{}", ran.stderr);
}

#[test]
fn a_record_that_no_store_takes_is_malformed() {
    let place = Place::new();
    let input = format!("a\t1\n{}\t2\nb\t3\n", "k".repeat(65_536));
    let ran = place.run_with_input("import", &["-"], input.as_bytes());
    ran.failed(3, "invalid");
    assert!(ran.stderr.contains("line 2 "), "{}", ran.stderr);
    place.run("scan", &["--keys-only"]).printed("a\n");
    place.run_with_input("import", &["--skip-bad", "-"], input.as_bytes()).expect(0);
    place.run("scan", &["--keys-only"]).printed("a\nb\n");
}

#[test]
fn nothing_to_import_is_a_warning() {
    let place = Place::new();
    let ran = place.run("import", &["-"]);
    ran.expect(0);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("slmdb: warning: ") && lines[1].starts_with("imported 0, skipped 0 in "));
}

#[test]
fn input_that_is_not_there_makes_no_store() {
    let place = Place::new();
    place.run("import", &[place.path("missing").to_str().unwrap()]).failed(3, "io");
    place.run("import", &[place.path("").to_str().unwrap()]).failed(3, "io");
    assert!(!place.path("db").exists());
}

#[test]
fn jsonl_with_a_key_field_keeps_lines() {
    let place = Place::new();
    let file = place.file("events.ndjson", "{\"id\":7,\"a\":[1]}\n{\"id\":\"x\"}\n{\"id\":null}\n");
    let ran = place.run("import", &["--key", "id", &file]);
    ran.failed(3, "invalid");
    assert!(ran.stderr.contains("line 3 "), "{}", ran.stderr);
    place.run("scan", &[]).printed("7\t{\"id\":7,\"a\":[1]}\nx\t{\"id\":\"x\"}\n");
}

#[test]
fn an_export_that_can_not_be_written_is_an_error() {
    let place = Place::new();
    place.run("put", &["k", "v"]).expect(0);
    place.run("export", &[place.path("no/such/place").to_str().unwrap()]).failed(3, "io");
}

#[test]
fn a_large_import_ends_in_table_files_and_a_small_one_does_not() {
    let place = Place::new();
    place.run_with_input("import", &["-"], b"small\t1\n").expect(0);
    assert!(place.run("stats", &["--json"]).expect(0).out().contains("\"index_keys\":0,"));
    let value = "x".repeat(10_000);
    let input: String = (0..1700).map(|number| format!("{number}\t{value}\n")).collect();
    place.run_with_input("import", &["-"], input.as_bytes()).expect(0);
    assert!(place.run("stats", &["--json"]).expect(0).out().contains("\"index_keys\":1701,"));
}
