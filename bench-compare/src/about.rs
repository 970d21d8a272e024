//! What is told of a run beside its figures: the command, and the machine.

use std::ffi::OsString;
use std::fs;

use serde_json::{Map, Value, json};

use crate::footing::{machine_memory_bytes, processors};

/// How it was measured, in JSON: `command` and `machine`.
pub fn about(raw: &[OsString]) -> Map<String, Value> {
    let command: Vec<String> = raw.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let mut about = Map::new();
    about.insert("command".to_string(), command.into());
    let machine = json!({
        "processor": processor_name(),
        "processors": processors(),
        "memory_bytes": machine_memory_bytes(),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|name| name.trim().to_string()),
    });
    about.insert("machine".to_string(), machine);
    about
}

/// The same in words: the command, and the machine.
pub fn in_words(about: &Map<String, Value>) -> (String, String) {
    let words: Vec<&str> = about["command"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let machine = &about["machine"];
    let machine = format!(
        "{} processors ({}), {} memory, Linux {}",
        machine["processors"],
        machine["processor"].as_str().unwrap_or("unknown"),
        slmdb_cli::units::bytes(machine["memory_bytes"].as_u64().unwrap_or(0)),
        machine["kernel"].as_str().unwrap_or("unknown"),
    );
    (format!("slmdb-compare {}", words.join(" ")), machine)
}

fn processor_name() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}
