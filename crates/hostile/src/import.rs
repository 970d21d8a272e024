//! What `slmdb import` reads: any input is records and complaints, in order, to its end.

use slmdb_cli::bytes::{escape, unescape};
use slmdb_cli::formats::{ExportFormat, ImportFormat, Record, Step, reader};

use crate::memory::within;

/// The field that is the key, where the format wants one.
const FIELD: &str = "Package";

pub fn seeds() -> Vec<Vec<u8>> {
    let inputs: [(u8, &[u8]); 4] = [
        (0, b"a\t1\nb\\tc\t\\x00\\\\\nno tab\nkey\tbad\\x1\n\tempty key\nlast\tno line feed"),
        (1, b"{\"key\":\"a\",\"value\":\"1\"}\n\n{\"value\":\"\\u00e9\\ud83d\\ude00\",\"key\":\"b\"}\n{\"key_b64\":\"/wA=\",\"value_b64\":\"\"}\n{"),
        (2, b"{\"Package\":\"a\",\"x\":[1,{}]}\n{\"Package\":12345678901234567890.5e3}\n{\"Package\":null}\n"),
        (3, b"Package: a\nText: more\n and more\n\nPackage: b\r\n\n Package: c\nPACKAGE:d\n:\n"),
    ];
    inputs.iter().map(|(format, input)| [&[*format], *input].concat()).collect()
}

pub fn run(input: &[u8]) {
    let Some((&format, input)) = input.split_first() else { return };
    let (format, key) = match format % 4 {
        0 => (ImportFormat::Tsv, None),
        1 => (ImportFormat::Jsonl, None),
        2 => (ImportFormat::Jsonl, Some(FIELD)),
        _ => (ImportFormat::Paragraphs, Some(FIELD)),
    };
    // A JSON object of many small fields takes some ten times its text.
    within(64 * input.len() + (1 << 20), || {
        assert_eq!(unescape(escape(input).as_bytes()).as_deref(), Ok(input), "escaping loses bytes");
        let mut records = reader(format, key, Box::new(input));
        let mut record = Record::default();
        let (mut line, mut offset) = (0, 0);
        loop {
            let step = records.next(&mut record).expect("bytes in memory can be read");
            assert!(records.position() <= input.len() as u64);
            let place = match step {
                Step::End => break,
                Step::Record => {
                    comes_back(&record);
                    (record.line, record.offset)
                }
                Step::Malformed(malformed) => {
                    assert!(!malformed.why.is_empty() && !malformed.why.contains('\n'), "{:?}", malformed.why);
                    (malformed.line, malformed.offset)
                }
            };
            assert!(place.0 > line && (line == 0 || place.1 > offset), "it goes round in circles");
            (line, offset) = place;
            let lines_before = input[..offset as usize].iter().filter(|&&byte| byte == b'\n').count() as u64;
            assert_eq!(line, lines_before + 1, "line and offset disagree");
        }
        assert_eq!(records.position(), input.len() as u64, "it ends before the end");
    });
}

/// What is exported is imported as it was.
fn comes_back(record: &Record) {
    for (export, import) in [(ExportFormat::Tsv, ImportFormat::Tsv), (ExportFormat::Jsonl, ImportFormat::Jsonl)] {
        let mut text = Vec::new();
        export.write_record(&mut text, &record.key, &record.value);
        let mut again = Record::default();
        let mut records = reader(import, None, Box::new(&text[..]));
        assert_eq!(records.next(&mut again).ok(), Some(Step::Record), "{import:?}: an exported record is malformed");
        assert!(again.key == record.key && again.value == record.value, "{import:?}: a record has changed");
        assert_eq!(records.next(&mut again).ok(), Some(Step::End), "{import:?}: one record became two");
    }
}
