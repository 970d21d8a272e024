//! The headers say what the code does: each function is in both, with the same types, and so is each constant.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A function: the types of its parameters, and last of what it returns. In C's words, without spaces about stars.
type Signature = Vec<String>;

fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All of the code in a folder.
fn code(folder: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

/// The parts between commas that stand in no parentheses.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '<' => depth += 1,
            ')' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// What stands in the parentheses that `text` begins with, and what follows them.
fn in_parentheses(text: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 1 => return (&text[1..at], &text[at + 1..]),
            ')' => depth -= 1,
            _ => {}
        }
    }
    panic!("parentheses are open: {text}");
}

/// A type of C without the name behind it.
fn type_of_c(declared: &str) -> String {
    const FUNCTIONS: [&str; 3] = ["slmdb_compare_t", "slmdb_destroy_t", "slmdb_on_event_t"];
    if declared.contains('(') || FUNCTIONS.iter().any(|name| declared.starts_with(name)) {
        return "function".to_string();
    }
    let name_from = declared.rfind([' ', '*']).map_or(0, |at| at + 1);
    let spaced = declared[..name_from].split_whitespace().collect::<Vec<_>>().join(" ");
    spaced.replace("* ", "*").replace("bool", "uint8_t")
}

/// The functions that a header declares.
fn declared(header: &str) -> BTreeMap<String, Signature> {
    let mut code = String::new();
    for part in text(header).split("/*") {
        code.push_str(part.split_once("*/").map_or(part, |(_, behind)| behind));
    }
    let code: String = code.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    let mut functions = BTreeMap::new();
    for statement in code.split(';').map(str::trim) {
        let Some(open) = statement.find('(') else { continue };
        if statement.starts_with("typedef") {
            continue;
        }
        let before = statement[..open].trim_start_matches("extern \"C\" {").trim_start_matches(['}', '{']).trim();
        let name = before.rsplit([' ', '*']).next().unwrap().to_string();
        let (parameters, _) = in_parentheses(&statement[open..]);
        let mut signature: Signature = match parameters.trim() {
            "void" => Vec::new(),
            parameters => parts(parameters).into_iter().map(type_of_c).collect(),
        };
        signature.push(type_of_c(before));
        assert_eq!(functions.insert(name.clone(), signature), None, "{name} is declared twice");
    }
    functions
}

/// A type of Rust in C's words.
fn type_of_rust(name: &str) -> String {
    if let Some(to) = name.strip_prefix("*const ") {
        let to = type_of_rust(to);
        return if to.ends_with('*') { format!("{to}const*") } else { format!("const {to}*") };
    }
    if let Some(to) = name.strip_prefix("*mut ") {
        return type_of_rust(to) + "*";
    }
    match name {
        "c_char" => "char",
        "c_int" => "int",
        "c_void" => "void",
        "usize" => "size_t",
        "u64" => "uint64_t",
        "u8" => "uint8_t",
        "f64" => "double",
        name if name.starts_with("Option<") => "function",
        name => name,
    }
    .to_string()
}

/// The functions that code exports.
fn exported(code: &str) -> BTreeMap<String, Signature> {
    const EXPORT: &str = "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn ";
    assert_eq!(code.matches("no_mangle").count(), code.matches(EXPORT).count(), "all exports are written alike");
    let mut functions = BTreeMap::new();
    for function in code.split(EXPORT).skip(1) {
        let open = function.find('(').unwrap();
        let (parameters, behind) = in_parentheses(&function[open..]);
        let mut signature: Signature =
            parts(parameters).iter().map(|parameter| type_of_rust(parameter.split_once(": ").unwrap().1)).collect();
        let returned = behind.split('{').next().unwrap().trim();
        signature.push(returned.strip_prefix("-> ").map_or("void".to_string(), type_of_rust));
        functions.insert(function[..open].to_string(), signature);
    }
    functions
}

#[test]
fn leveldb_header_and_code_have_the_same_functions() {
    let (declared, exported) = (declared("include/leveldb/c.h"), exported(&code("leveldb")));
    assert_eq!(declared.len(), 68, "LevelDB 1.23 has 68 functions");
    assert_eq!(declared, exported);
}

#[test]
fn slmdb_header_and_code_have_the_same_functions() {
    let (declared, exported) = (declared("include/slmdb/c.h"), exported(&code("native")));
    assert!(declared.len() > 50, "{declared:#?}");
    assert_eq!(declared, exported);
}

#[test]
fn slmdb_header_and_code_have_the_same_constants() {
    let header = text("include/slmdb/c.h");
    let in_header: BTreeMap<&str, &str> = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define "))
        .filter_map(|line| line.split_once(' '))
        .map(|(name, value)| (name, value.split_whitespace().next().unwrap()))
        .collect();
    let code = code("native");
    let in_code: BTreeMap<&str, &str> = code
        .lines()
        .filter_map(|line| line.strip_prefix("pub const "))
        .map(|line| (line.split(':').next().unwrap(), line.split("= ").nth(1).unwrap().trim_end_matches(';')))
        .collect();
    assert!(in_header.len() > 15, "{in_header:?}");
    assert_eq!(in_header, in_code);
}

#[test]
fn types_are_read_alike_in_both_languages() {
    for (c, rust) in [
        ("const char* key", "*const c_char"),
        ("char** errptr", "*mut *mut c_char"),
        ("const char* const* keys", "*const *const c_char"),
        ("const size_t* lengths", "*const usize"),
        ("const char** value", "*mut *const c_char"),
        ("bool yes", "u8"),
        ("uint8_t yes", "u8"),
        ("void (*destructor)(void*)", "Option<Destroy>"),
        ("slmdb_t* db", "*mut slmdb_t"),
    ] {
        assert_eq!(type_of_c(c), type_of_rust(rust));
    }
    assert_ne!(type_of_c("const char* key"), type_of_rust("*mut c_char"));
}
