//! What a store was asked to write, what it answered, and whether what is found in it later can be.

use std::collections::BTreeMap;

use crate::common::Model;

/// A key and its value from then on.
pub type Change = (Vec<u8>, Option<Vec<u8>>);

struct Write {
    changes: Vec<Change>,
    /// Else it got an error that leaves open whether it was applied.
    is_acknowledged: bool,
}

/// All writes, in order, but those that surely were not applied.
#[derive(Default)]
pub struct History {
    writes: Vec<Write>,
    /// How many of them a power cut must not touch.
    durable: usize,
}

impl History {
    pub fn acknowledged(&mut self, changes: Vec<Change>, is_durable: bool) {
        self.writes.push(Write { changes, is_acknowledged: true });
        if is_durable {
            self.all_durable();
        }
    }

    pub fn unsure(&mut self, changes: Vec<Change>) {
        self.writes.push(Write { changes, is_acknowledged: false });
    }

    /// Everything acknowledged so far survives a power cut.
    pub fn all_durable(&mut self) {
        self.durable = self.writes.len();
    }

    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// What keys may hold after the first `length` writes.
    pub fn possible(&self, length: usize) -> BTreeMap<&[u8], Vec<Option<&[u8]>>> {
        let mut possible: BTreeMap<&[u8], Vec<Option<&[u8]>>> = BTreeMap::new();
        for write in &self.writes[..length] {
            for (key, value) in &write.changes {
                let values = possible.entry(key).or_insert_with(|| vec![None]);
                if write.is_acknowledged {
                    values.clear();
                }
                values.push(value.as_deref());
            }
        }
        possible
    }

    /// Whether a store that got the first `length` writes may hold this; if not, what is wrong.
    pub fn explains(&self, found: &Model, length: usize) -> Result<(), String> {
        let possible = self.possible(length);
        if let Some(key) = found.keys().find(|key| !possible.contains_key(&key[..])) {
            return Err(format!("key {} was never written", key.escape_ascii()));
        }
        for (key, values) in &possible {
            let value = found.get(*key).map(Vec::as_slice);
            if !values.contains(&value) {
                let is_missing = if value.is_none() { "is missing" } else { "has a wrong value" };
                return Err(format!("key {} {is_missing}", key.escape_ascii()));
            }
        }
        // Batches are there wholly or not at all, as far as nobody wrote to their keys later; their puts tell, for no two values
        // are alike.
        for (position, write) in self.writes[..length].iter().enumerate() {
            let later = &self.writes[position + 1..length];
            let is_last = |key: &[u8]| !later.iter().flat_map(|write| &write.changes).any(|(other, _)| other == key);
            let telling = write.changes.iter().filter(|(key, value)| value.is_some() && is_last(key));
            let mut there = telling.map(|(key, value)| found.get(key) == value.as_ref());
            let first = there.next();
            if there.any(|is_there| Some(is_there) != first) {
                return Err("a batch is half there".into());
            }
        }
        Ok(())
    }

    /// The same after a power cut: the newest writes that were not synced may be gone, but none in between.
    pub fn explains_after_power_cut(&self, found: &Model) -> Result<(), String> {
        let mut explained = self.explains(found, self.len());
        for length in (self.durable..self.len()).rev() {
            if explained.is_ok() {
                break;
            }
            explained = self.explains(found, length);
        }
        explained
    }
}

#[test]
fn a_history_tells_what_can_be_from_what_can_not() {
    let change = |key: &str, value: &str| (key.as_bytes().to_vec(), Some(value.as_bytes().to_vec()));
    let found = |changes: &[(&str, &str)]| -> Model {
        changes.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
    };
    let mut history = History::default();
    history.acknowledged(vec![change("a", "1")], true);
    history.unsure(vec![change("b", "2"), change("c", "2")]);
    history.acknowledged(vec![change("a", "3")], false);
    history.acknowledged(vec![change("d", "4")], false);
    for possible in [&[("a", "3"), ("d", "4")][..], &[("a", "3"), ("b", "2"), ("c", "2"), ("d", "4")]] {
        history.explains(&found(possible), 4).unwrap();
    }
    let lost = found(&[("a", "3")]);
    history.explains(&lost, 4).unwrap_err();
    history.explains_after_power_cut(&lost).unwrap();
    let all_lost = found(&[("a", "1")]);
    history.explains_after_power_cut(&all_lost).unwrap();
    for impossible in [
        &[("a", "1"), ("d", "4")][..],
        &[("a", "3"), ("b", "2"), ("d", "4")],
        &[("a", "3"), ("e", "5")],
        &[("d", "4")],
        &[],
    ] {
        history.explains_after_power_cut(&found(impossible)).unwrap_err();
    }
}
