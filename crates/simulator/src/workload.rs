//! What is done to the store that is crashed, and what must be there afterwards.
//!
//! Several clients write at once, each to keys of its own, so that what each may find is a matter of its own operations: those
//! that were acknowledged, in order, and perhaps the one that was not yet.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, PoisonError};

use slmdb_engine::{Condition, Engine, EngineName, WriteBatch};
use slmdb_env::Error;
use slmdb_sync::scheduled::thread;

use crate::Random;
use crate::engines::keys_of_client;
use crate::machine::{Recorded, Setup};

/// What a client's part of the store holds.
pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// One key's new value, or its end.
pub type KeyChange = (Vec<u8>, Option<Vec<u8>>);

/// One write of a client: a put, a delete, a batch, or a delete of a range.
#[derive(Debug, Clone)]
pub struct Write {
    /// The moment before it was asked for.
    pub began: u64,
    /// The moment after it was acknowledged.
    pub ended: u64,
    /// Whether it was to outlive a power cut when it was acknowledged.
    pub synced: bool,
    /// What it changes; nothing, where a condition did not hold.
    pub changes: Vec<KeyChange>,
}

/// What was done, and when.
#[derive(Debug, Clone, Default)]
pub struct Done {
    /// Each client's writes, in order.
    pub clients: Vec<Vec<Write>>,
    /// When everything acknowledged before was made to outlive power cuts: from when to when that took.
    pub syncs: Vec<(u64, u64)>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// How the store is set up.
    pub setup: Setup,
    /// How many write at once.
    pub clients: usize,
    /// How many writes each client does between an opening and a closing.
    pub writes: usize,
    /// How often the store is opened and closed.
    pub openings: usize,
}

impl Plan {
    /// A plan by chance.
    pub fn of_seed(engine: EngineName, seed: u64, has_pool: bool) -> Plan {
        let mut random = Random(seed);
        let clients = 1 + random.below(3) as usize;
        Plan {
            seed,
            setup: Setup::of_seed(engine, seed, has_pool),
            clients,
            writes: (20 + random.below(if has_pool { 60 } else { 300 }) as usize) / clients,
            openings: 1 + random.below(3) as usize,
        }
    }

    /// `pool` or `dram`.
    pub fn medium(&self) -> &'static str {
        MEDIA[usize::from(!self.setup.has_pool)]
    }
}

/// What [`Plan::medium`] says of stores with a pool, and of those without.
pub const MEDIA: [&str; 2] = ["pool", "dram"];

/// The first byte of a client's keys.
fn prefix(client: usize) -> u8 {
    b'a' + client as u8
}

/// A client's part of what was found in the store.
pub fn part_of(found: &Model, client: usize) -> Model {
    let range = (Bound::Included(vec![prefix(client)]), Bound::Excluded(vec![prefix(client) + 1]));
    found.range(range).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Does it. Nothing may fail: the machine has no faults.
pub fn run(plan: &Plan, machine: &Recorded) -> Done {
    let mut models = vec![Model::new(); plan.clients];
    let mut clients: Vec<Vec<Write>> = vec![Vec::new(); plan.clients];
    let syncs = Syncs { machine, times: Mutex::default() };
    for opening in 0..plan.openings {
        let engine = machine.open().expect("nothing fails on this machine");
        thread::scope(|scope| {
            for (client, (model, writes)) in models.iter_mut().zip(&mut clients).enumerate() {
                let (engine, syncs) = (&engine, &syncs);
                scope.spawn(move || {
                    let number = (opening * 64 + client + 1) as u64;
                    let random = Random(plan.seed ^ (number * 0x1234_5678_9abc));
                    let keys = keys_of_client(plan.setup.engine);
                    let mut client = Client { prefix: prefix(client), keys, machine, engine, model, writes, random };
                    (0..plan.writes).for_each(|_| client.act(syncs));
                });
            }
        });
        let mut random = Random(plan.seed ^ ((opening as u64) << 40));
        if random.one_in(2) {
            syncs.compact(&*engine);
        }
        syncs.note(|| engine.close());
    }
    Done { clients, syncs: syncs.times.into_inner().unwrap_or_else(PoisonError::into_inner) }
}

/// Notes when everything acknowledged before was made to outlive power cuts.
struct Syncs<'a> {
    machine: &'a Recorded,
    times: Mutex<Vec<(u64, u64)>>,
}

impl Syncs<'_> {
    fn note(&self, action: impl FnOnce() -> slmdb_engine::Result<()>) {
        let began = self.machine.moment();
        action().expect("nothing fails on this machine");
        self.times.lock().unwrap_or_else(PoisonError::into_inner).push((began, self.machine.moment()));
    }

    /// Merges all there is, unless that takes more at once than this machine's small pool has left.
    fn compact(&self, engine: &dyn Engine) {
        self.note(|| match engine.compact_range(Bound::Unbounded, Bound::Unbounded) {
            Err(Error::Full { .. }) => engine.sync(),
            ended => ended,
        });
    }
}

struct Client<'a> {
    prefix: u8,
    /// How many keys it has.
    keys: u64,
    machine: &'a Recorded,
    engine: &'a Arc<dyn Engine>,
    model: &'a mut Model,
    writes: &'a mut Vec<Write>,
    random: Random,
}

impl Client<'_> {
    fn act(&mut self, syncs: &Syncs<'_>) {
        match self.random.below(40) {
            0 => syncs.note(|| self.engine.flush()),
            1 => syncs.note(|| self.engine.sync()),
            2 if self.random.one_in(2) => self.remove_all(),
            3 if self.random.one_in(4) => syncs.compact(&**self.engine),
            4 => self.remove_range(),
            _ => self.write(),
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.random.below(self.keys);
        // Some are long, with a head in common.
        let stem = if number.is_multiple_of(6) { "a-key-with-a-long-head-in-common-" } else { "" };
        let mut key = vec![self.prefix];
        key.extend_from_slice(format!("{stem}{number:02}").as_bytes());
        key
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.random.below(24) {
            0 => 3000,
            1 => 9000,
            2..=7 => 200 + self.random.below(300),
            _ => self.random.below(60),
        };
        let mut value = vec![0; length as usize + 8];
        self.random.fill(&mut value);
        value
    }

    fn change(&mut self) -> KeyChange {
        let key = self.key();
        let value = (!self.random.one_in(4)).then(|| self.value());
        (key, value)
    }

    fn write(&mut self) {
        let mut changes = vec![self.change()];
        if self.random.one_in(6) {
            let more = 1 + self.random.below(4);
            changes.extend((0..more).map(|_| self.change()));
        }
        let condition = self.random.one_in(8).then(|| (self.key(), self.random.one_in(2)));
        self.submit(changes, condition);
    }

    /// So that the index shrinks, too.
    fn remove_all(&mut self) {
        if self.random.one_in(2) {
            return self.submit_range(vec![self.prefix]..vec![self.prefix + 1], Vec::new());
        }
        let changes = self.model.keys().map(|key| (key.clone(), None)).collect();
        self.submit(changes, None);
    }

    /// Some keys that lie next to each other; at times with writes behind it in its batch.
    fn remove_range(&mut self) {
        let (one, other) = (self.key(), self.key());
        let more = self.random.below(3);
        let changes = (0..more).map(|_| self.change()).collect();
        self.submit_range(one.clone().min(other.clone())..one.max(other), changes);
    }

    fn submit_range(&mut self, range: Range<Vec<u8>>, changes: Vec<KeyChange>) {
        let mut batch = WriteBatch::new();
        batch.delete_range(range.clone()).expect("keys are short");
        let removed = self.model.range(range).map(|(key, _)| (key.clone(), None)).collect();
        self.submit_batch(batch, removed, changes, None);
    }

    fn submit(&mut self, changes: Vec<KeyChange>, condition: Option<(Vec<u8>, bool)>) {
        self.submit_batch(WriteBatch::new(), Vec::new(), changes, condition);
    }

    /// Submits a batch, which makes these changes, with more.
    fn submit_batch(
        &mut self,
        mut batch: WriteBatch,
        mut changes: Vec<KeyChange>,
        more: Vec<KeyChange>,
        condition: Option<(Vec<u8>, bool)>,
    ) {
        let synced = self.random.one_in(5);
        for (key, value) in &more {
            let added = match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
            added.expect("keys and values are short");
        }
        changes.extend(more);
        let began = self.machine.moment();
        if let Some((key, present)) = &condition {
            let asked = if *present { Condition::Present(key) } else { Condition::Absent(key) };
            let applied = self.engine.write_if(asked, &batch, synced).expect("nothing fails on this machine");
            assert_eq!(applied, self.model.contains_key(key) == *present, "a conditional write went wrong");
            if !applied {
                changes.clear();
            }
        } else {
            self.engine.write(&batch, synced).expect("nothing fails on this machine");
        }
        let ended = self.machine.moment();
        apply(self.model, &changes);
        self.writes.push(Write { began, ended, synced, changes });
    }
}

/// Applies changes to a model.
pub fn apply(model: &mut Model, changes: &[KeyChange]) {
    for (key, value) in changes {
        match value {
            Some(value) => drop(model.insert(key.clone(), value.clone())),
            None => drop(model.remove(key)),
        }
    }
}
