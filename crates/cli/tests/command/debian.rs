//! Real input: 500 stanzas of Debian's package index (see `tests/data/README.md`).

use crate::Place;

#[test]
fn the_package_index_goes_in_and_comes_out() {
    let sample = include_bytes!("../data/debian-sample.paragraphs");
    let text = std::str::from_utf8(sample).unwrap();
    let place = Place::new();
    let ran = place.run_with_input("import", &["--format", "paragraphs", "--key", "Package", "-"], sample);
    ran.expect(0);
    assert!(ran.stderr.starts_with("imported 500, skipped 0 in "), "{}", ran.stderr);

    let stanzas: Vec<&str> = text.split("\n\n").filter(|stanza| !stanza.is_empty()).collect();
    assert_eq!(stanzas.len(), 500);
    let name = |stanza: &str| stanza.lines().find_map(|line| line.strip_prefix("Package: ")).unwrap().to_string();
    for stanza in &stanzas {
        if ["bash", "libc6"].contains(&name(stanza).as_str()) {
            place.run("get", &["--raw", &name(stanza)]).printed(stanza);
        }
    }
    assert!(place.run("get", &["bash"]).expect(0).out().starts_with("Package: bash\\n"));

    let mut names: Vec<String> = stanzas.iter().map(|stanza| name(stanza)).collect();
    names.sort();
    let first: String =
        names.iter().filter(|name| name.starts_with("lib")).take(5).map(|name| format!("{name}\n")).collect();
    place.run("scan", &["--prefix", "lib", "--limit", "5", "--keys-only"]).printed(&first);
    let all: String = names.iter().map(|name| format!("{name}\n")).collect();
    place.run("scan", &["--keys-only"]).printed(&all);

    let stats: serde_json::Value = serde_json::from_slice(&place.run("stats", &["--json"]).expect(0).stdout).unwrap();
    assert_eq!(stats["last_sequence_number"], 500);
    assert!(place.run("stats", &[]).expect(0).out().contains("MemTables"));
    assert!(place.run("verify", &[]).expect(0).out().starts_with("ok: "));

    // The same through a flush: from table files.
    place.run_with_input("shell", &[], b"flush\n").expect(0);
    place.run("scan", &["--keys-only"]).printed(&all);
    let stats: serde_json::Value = serde_json::from_slice(&place.run("stats", &["--json"]).expect(0).stdout).unwrap();
    assert_eq!(stats["index_keys"], 500);
    place.run("verify", &[]).expect(0);
}
