//! Picking, by cases in text files: commands, and after a line `----` what they print.
//!
//! - `options k=v…`: as [`LevelOptions`]; new levels.
//! - `run number level smallest-largest bytes`: a run; on level 0, later numbers are newer.
//! - `pick`, `range level smallest-largest`, `rewrite …`, `inflow …`, `run level number`, `split …`: a plan, which is called p1,
//!   p2, and so on.
//! - `done plan [number:smallest-largest:bytes…]`: applies a plan with these outputs, or moves its runs.
//! - `drop plan`: gives it up.
//! - `base bytes`: from now on level 1 may hold so many.
//! - `levels`, `scores`, `debt` print what they say.
//!
//! `UPDATE_CASES=1` writes down what was printed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use slmdb_order::KeyOrder;

use super::memory_run::MemoryRun;
use crate::{Change, LevelOptions, Levels, Picked, Plan, Run, RunRecord};

struct Script {
    levels: Levels<MemoryRun>,
    plans: BTreeMap<String, Plan<MemoryRun>>,
    made: usize,
}

fn options(words: &[&str]) -> LevelOptions {
    let mut options = LevelOptions { growth: 10, ..LevelOptions::with_run_bytes(100, 10) };
    for word in words {
        let (name, value) = word.split_once('=').unwrap();
        let value: u64 = value.parse().unwrap();
        match name {
            "base" => options.base_bytes = value,
            "growth" => options.growth = value,
            "run" => options.run_bytes = value,
            "level_0_runs" => options.level_0_runs = value as usize,
            "grandparents" => options.grandparent_bytes_max = value,
            "input" => options.input_bytes_max = value,
            _ => panic!("option {name}"),
        }
    }
    options
}

fn run(number: &str, bounds: &str, bytes: &str) -> Arc<MemoryRun> {
    let (smallest, largest) = bounds.split_once('-').unwrap();
    let number: u32 = number.parse().unwrap();
    Arc::new(MemoryRun::bare(
        number,
        RunRecord {
            entries: 1,
            deletes: 0,
            bytes: bytes.parse().unwrap(),
            smallest_key: smallest.as_bytes().into(),
            largest_key: largest.as_bytes().into(),
            lowest_sequence: u64::from(number),
            highest_sequence: u64::from(number),
            created_unix_ns: 0,
        },
    ))
}

fn numbers<'r>(runs: impl IntoIterator<Item = &'r Arc<MemoryRun>>) -> String {
    runs.into_iter().map(|run| run.number().to_string()).collect::<Vec<_>>().join(" ")
}

impl Script {
    fn new() -> Script {
        let levels = Levels::open(options(&[]), KeyOrder::Bytewise, []).unwrap();
        Script { levels, plans: BTreeMap::new(), made: 0 }
    }

    fn keep(&mut self, plan: Plan<MemoryRun>) -> String {
        self.made += 1;
        let name = format!("p{}", self.made);
        let (smallest, largest) = plan.bounds();
        let mut line = format!("{name}: {}, {} -> {}: ", plan.reason().as_str(), plan.from(), plan.to());
        write!(line, "{} + {}", or_none(numbers(plan.upper())), or_none(numbers(plan.lower()))).unwrap();
        write!(line, ", {}-{}", String::from_utf8_lossy(smallest), String::from_utf8_lossy(largest)).unwrap();
        write!(line, ", grandparents {}", or_none(numbers(&plan.cut().grandparents))).unwrap();
        if plan.is_move() {
            line += ", a move";
        }
        self.plans.insert(name, plan);
        line
    }

    fn picked(&mut self, picked: Picked<MemoryRun>) -> String {
        match picked {
            Picked::Plan(plan) => self.keep(plan),
            Picked::Busy => "busy".to_string(),
            Picked::Nothing => "nothing".to_string(),
        }
    }

    /// Carries out a command, and returns what it prints.
    fn command(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["options", ..] => {
                *self = Script::new();
                self.levels = Levels::open(options(&words[1..]), KeyOrder::Bytewise, []).unwrap();
            }
            ["run", number, level, bounds, bytes] => {
                let added = vec![(level.parse().unwrap(), run(number, bounds, bytes))];
                let change = Change { added, ..Change::default() };
                return self.levels.apply(&change).err().unwrap_or_default();
            }
            ["pick"] => {
                return self.levels.pick(&|_| true).map_or("nothing".to_string(), |plan| self.keep(plan));
            }
            ["pick", level] => {
                let may = |other: u8| other.to_string() == level;
                return self.levels.pick(&may).map_or("nothing".to_string(), |plan| self.keep(plan));
            }
            ["run", level, number] => {
                let picked = self.levels.plan_run(level.parse().unwrap(), number.parse().unwrap());
                return self.picked(picked);
            }
            ["done", name, ..] => return self.done(name, &words[2..]),
            [what, level, bounds] => return self.plan_range(what, level.parse().unwrap(), bounds, u64::MAX),
            ["range", level, bounds, bytes] => {
                return self.plan_range("range", level.parse().unwrap(), bounds, bytes.parse().unwrap());
            }
            ["base", bytes] => self.levels.set_base_bytes(bytes.parse().unwrap()),
            ["drop", name] => drop(self.plans.remove(name).unwrap()),
            ["levels"] => return self.print_levels(),
            ["scores"] => {
                let scores = self.levels.scores().map(|score| format!("{score:.2}"));
                return scores.join(" ");
            }
            ["debt"] => {
                let debt = self.levels.debt();
                let (above, pending) = (debt.above_target_bytes, debt.pending_bytes);
                return format!("{above} above, {pending} pending, fullest {:.2}", debt.fullest);
            }
            _ => panic!("command {line}"),
        }
        String::new()
    }

    fn plan_range(&mut self, what: &str, level: u8, bounds: &str, input_bytes_max: u64) -> String {
        let (from, to) = bounds.split_once('-').unwrap();
        let range = (Bound::Included(from.as_bytes()), Bound::Included(to.as_bytes()));
        let picked = match what {
            "range" => self.levels.plan_range_within(level, range, input_bytes_max),
            "rewrite" => self.levels.plan_rewrite(level, range),
            "inflow" => {
                return match self.levels.plan_inflow(level, from.as_bytes(), to.as_bytes()) {
                    Ok(plan) => self.keep(plan),
                    Err(busy) => format!("busy from {}", String::from_utf8_lossy(&busy.from)),
                };
            }
            _ => panic!("command {what}"),
        };
        self.picked(picked)
    }

    fn done(&mut self, name: &str, outputs: &[&str]) -> String {
        let plan = self.plans.remove(name).unwrap();
        let change = if outputs.is_empty() && plan.is_move() {
            plan.change_of_move()
        } else {
            plan.change(outputs.iter().map(|output| {
                let parts: Vec<&str> = output.split(':').collect();
                run(parts[0], parts[1], parts[2])
            }))
        };
        self.levels.apply(&change).err().unwrap_or_default()
    }

    fn print_levels(&self) -> String {
        let version = self.levels.current();
        let mut lines = Vec::new();
        for level in (0..7).filter(|level| !version.level(*level).is_empty()) {
            lines.push(format!("{level}: {}", numbers(version.level(level))));
        }
        lines.join("\n")
    }
}

fn or_none(numbers: String) -> String {
    if numbers.is_empty() { "none".to_string() } else { numbers }
}

/// Runs the commands of a file, and returns it with what they printed.
fn replay(text: &str) -> String {
    let (mut script, mut replayed, mut printed) = (Script::new(), String::new(), Vec::new());
    let mut is_result = false;
    for line in text.lines().chain([""]) {
        match line {
            "----" => {
                is_result = true;
                writeln!(replayed, "----").unwrap();
                printed.drain(..).for_each(|line: String| writeln!(replayed, "{line}").unwrap());
            }
            "" => {
                assert!(printed.is_empty(), "nobody looks at {printed:?}");
                is_result = false;
                writeln!(replayed).unwrap();
            }
            _ if is_result => {}
            _ => {
                writeln!(replayed, "{line}").unwrap();
                if !line.starts_with('#') {
                    printed.extend(Some(script.command(line)).filter(|line| !line.is_empty()));
                }
            }
        }
    }
    format!("{}\n", replayed.trim_end())
}

fn check_cases(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/cases").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let replayed = replay(&text);
    if std::env::var_os("UPDATE_CASES").is_some() {
        std::fs::write(&path, &replayed).unwrap();
    }
    assert_eq!(replayed, text, "{name}");
}

#[test]
fn scores_and_turns() {
    check_cases("scores.txt");
}

#[test]
fn level_0() {
    check_cases("level_0.txt");
}

#[test]
fn moves_and_expansion() {
    check_cases("moves.txt");
}

#[test]
fn plans_that_meet() {
    check_cases("busy.txt");
}

#[test]
fn ranges() {
    check_cases("ranges.txt");
}
