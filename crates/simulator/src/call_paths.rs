//! From where in the program a step comes.
//!
//! A *call path* is the way to a step through all calls; crash points are pruned by it: what happened the hundredth time on the
//! same path is seldom news. A *site* is the place in the store's code that asked for the step: the innermost call that is not
//! one of the wrappers through which every flush, fence and sync goes. Sites are what the simulator proves itself on: each can
//! be switched off, and it must notice.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slmdb_testkit::{Seen, Step, Watcher};

/// Where calls are that are no site: the recorders, and the wrappers that lead to them.
const WRAPPERS: [&str; 4] =
    ["simulator/src/call_paths.rs", "testkit/src/", "pmem/src/medium.rs", "pmem/src/any_medium.rs"];

/// Files of which some functions are wrappers, with those.
const SOME_WRAPPERS: [(&str, &[&str]); 4] = [
    ("pmem/src/pool.rs", &["flush", "fence", "persist", "write_durably", "compare_exchange"]),
    ("pmem/src/arena.rs", &["flush", "fence", "write_durably", "compare_exchange_word", "sync"]),
    ("pmem/src/pool/extents.rs", &["store_entry"]),
    ("pmem/src/pool/lifecycle.rs", &["flush_header", "sync_file"]),
];

/// A place in the store's code that asks for a step.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// What it asks for.
    pub step: Step,
    /// The function.
    pub function: String,
    /// `file:line`, from the crate's directory on. (The build must have line tables.)
    pub place: String,
}

/// All call paths that were seen in this process, and their sites. Clones share.
#[derive(Debug, Clone, Default)]
pub struct CallPaths {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    /// By step and return addresses, innermost first.
    paths: HashMap<(Step, Vec<usize>), u32>,
    /// By path: its site. Found when first asked for, since that takes long.
    sites: HashMap<u32, Site>,
    /// The site that is switched off, and for each path whether it is of that site.
    off: Option<Site>,
    is_off: HashMap<u32, bool>,
    /// How often the site that is switched off was passed.
    passed: u64,
}

impl CallPaths {
    /// No paths.
    pub fn new() -> CallPaths {
        CallPaths::default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.inner().paths.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All sites that were seen.
    pub fn sites(&self) -> Vec<Site> {
        let mut inner = self.inner();
        let paths: Vec<_> = inner.paths.iter().map(|((step, calls), number)| (*number, *step, calls.clone())).collect();
        for (number, step, calls) in paths {
            inner.site(number, step, &calls);
        }
        let mut sites: Vec<_> = inner.sites.values().cloned().collect();
        sites.sort();
        sites.dedup();
        sites
    }

    /// From here on steps of this site seem to be done, and are not; `None`: all are done.
    pub fn switch_off(&self, site: Option<Site>) {
        let mut inner = self.inner();
        inner.off = site;
        inner.is_off.clear();
        inner.passed = 0;
    }

    /// How often the site that is switched off was passed since.
    pub fn passed(&self) -> u64 {
        self.inner().passed
    }

    /// The calls of a path, innermost first, as text.
    pub fn describe(&self, path: u32) -> Vec<String> {
        let calls = self.inner().paths.iter().find(|(_, number)| **number == path).map(|((_, calls), _)| calls.clone());
        let mut lines = Vec::new();
        for call in calls.unwrap_or_default() {
            frames(call, |frame| lines.push(format!("{} ({}:{})", frame.function, frame.file, frame.line)));
        }
        lines
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher for CallPaths {
    fn see(&self, step: Step) -> Seen {
        let mut calls = Vec::with_capacity(48);
        backtrace::trace(|frame| {
            calls.push(frame.ip() as usize);
            true
        });
        let mut inner = self.inner();
        let next = inner.paths.len() as u32 + 1;
        let path = *inner.paths.entry((step, calls.clone())).or_insert(next);
        let Some(off) = inner.off.clone() else { return Seen { path, done: true } };
        let is_off = match inner.is_off.get(&path) {
            Some(&is_off) => is_off,
            None => {
                let is_off = *inner.site(path, step, &calls) == off;
                inner.is_off.insert(path, is_off);
                is_off
            }
        };
        inner.passed += u64::from(is_off);
        Seen { path, done: !is_off }
    }
}

impl Inner {
    fn site(&mut self, path: u32, step: Step, calls: &[usize]) -> &Site {
        self.sites.entry(path).or_insert_with(|| site_of(step, calls))
    }
}

fn site_of(step: Step, calls: &[usize]) -> Site {
    for &call in calls {
        let mut found = None;
        frames(call, |frame| {
            if found.is_none() && !frame.is_wrapper() {
                found = Some(Site {
                    step,
                    function: frame.function.clone(),
                    place: format!("{}:{}", frame.file, frame.line),
                });
            }
        });
        if let Some(site) = found {
            return site;
        }
    }
    Site { step, function: "(unknown: the build has no line tables)".into(), place: String::new() }
}

/// A function on the way to a step, in slmdb's own code.
struct Frame {
    /// Without module and type parameters.
    function: String,
    /// From the crate's directory on.
    file: String,
    line: u32,
}

impl Frame {
    fn is_wrapper(&self) -> bool {
        WRAPPERS.iter().any(|wrapper| self.file.starts_with(wrapper))
            || SOME_WRAPPERS.iter().any(|(file, functions)| self.file == *file && functions.contains(&&*self.function))
    }
}

/// The functions of slmdb's that a return address is in, innermost first: several, where they were inlined.
fn frames(call: usize, mut see: impl FnMut(&Frame)) {
    // The address behind the call may belong to what follows it already.
    let address = call.saturating_sub(1) as *mut c_void;
    backtrace::resolve(address, |symbol| {
        let (Some(file), Some(line)) = (symbol.filename(), symbol.lineno()) else { return };
        let file = file.to_string_lossy();
        let Some(start) = file.rfind("crates/") else { return };
        let name = symbol.name().map_or_else(String::new, |name| format!("{name:#}"));
        let file = file[start + "crates/".len()..].to_string();
        see(&Frame { function: plain_name(&name).to_string(), file, line });
    });
}

/// A function's name, of whatever a name of it is made of: `a::B<C>::f<D>` is `f`.
fn plain_name(name: &str) -> &str {
    let mut depth = 0_i32;
    let (mut start, mut end) = (0, name.len());
    for (index, character) in name.char_indices() {
        match character {
            '<' => {
                if depth == 0 && index > start {
                    end = index;
                }
                depth += 1;
            }
            '>' if !name[..index].ends_with('-') => depth -= 1,
            ':' if depth == 0 => (start, end) = (index + 1, name.len()),
            _ => {}
        }
    }
    &name[start.min(end)..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_plain() {
        assert_eq!(plain_name("<slmdb_pmem::pool::Pool<M>>::persist"), "persist");
        assert_eq!(plain_name("<a::B<C> as d::E<F>>::g<fn() -> h>"), "g");
        assert_eq!(plain_name("persist<slmdb_pmem::Dram>"), "persist");
        assert_eq!(plain_name("a::b::{{closure}}"), "{{closure}}");
    }

    #[test]
    fn the_same_way_has_the_same_number_and_another_another() {
        let paths = CallPaths::new();
        let mut numbers = std::collections::BTreeSet::new();
        // (The compiler may have the first round of the loop apart.)
        for _ in 0..std::hint::black_box(20) {
            numbers.insert(paths.see(Step::Fence).path);
        }
        assert!(numbers.len() <= 2, "{numbers:?}");
        assert!(!numbers.contains(&paths.see(Step::Fence).path));
        assert!(!numbers.contains(&paths.see(Step::Flush).path), "another step is another path");
        assert_eq!(paths.len(), numbers.len() + 2);
    }
}
