//! [`AdvancedOptions`]: what measurements and comparisons with the paper choose.

use slmdb_engine::{CompactionOptions, DramIndex, Emulation, LinkPolicy, MapTables};

/// Options that few need: what is emulated and counted on an emulated medium, how structures are laid out, how often the
/// index is saved, the paper's thresholds of compaction. The defaults are the best that were measured. Set with
/// [`crate::Options::advanced`].
///
/// ```
/// use slmdb::{LinkPolicy, Options};
///
/// let options = Options::default().advanced(|advanced| advanced.memtable_links(LinkPolicy::Persisted).node_bytes(1024));
/// # let _ = options;
/// ```
#[derive(Debug, Clone)]
pub struct AdvancedOptions(pub(crate) slmdb_engine::Options);

impl AdvancedOptions {
    /// Everything about compaction: which files are chosen, how many are merged, how large their outputs are. It takes the
    /// place of what [`Options::compaction_policy`](crate::Options::compaction_policy) and its neighbours have set before.
    ///
    /// ```
    /// use slmdb::{CompactionOptions, CompactionPolicy, Options};
    ///
    /// let paper = CompactionOptions { policy: CompactionPolicy::Paper, live_key_threshold: 0.6, ..Default::default() };
    /// let options = Options::default().advanced(|advanced| advanced.compaction(paper));
    /// # let _ = options;
    /// ```
    pub fn compaction(mut self, compaction: CompactionOptions) -> AdvancedOptions {
        self.0.compaction = compaction;
        self
    }

    /// What ChameleonDB alone looks at: how much of its index is in memory, and how the rest is merged. Another engine's store ignores it.
    #[cfg(feature = "chameleon")]
    pub fn chameleon(mut self, chameleon: slmdb_chameleon::ChameleonOptions) -> AdvancedOptions {
        self.0.own = Some(std::sync::Arc::new(chameleon));
        self
    }

    /// What LAB-DB alone looks at: the sizes of its levels. Another engine's store ignores it.
    #[cfg(feature = "lab")]
    pub fn lab(mut self, lab: slmdb_lab::LabOptions) -> AdvancedOptions {
        self.0.own = Some(std::sync::Arc::new(lab));
        self
    }

    /// What TLSM alone looks at: which runs lie in the pool, and the sizes of its levels. Another engine's store ignores it.
    #[cfg(feature = "tlsm")]
    pub fn tlsm(mut self, tlsm: slmdb_tlsm::TlsmOptions) -> AdvancedOptions {
        self.0.own = Some(std::sync::Arc::new(tlsm));
        self
    }

    /// Time that the fast tier is to take, as if it were slower memory than it is; on [`Medium::Emulated`](crate::Medium::Emulated) alone, and for
    /// this opening: of writes, of a bandwidth, and of reads. Default: none, which costs nothing. For measurements:
    /// `docs/guide/media.md` says what the models mean.
    pub fn emulation(mut self, emulation: Emulation) -> AdvancedOptions {
        self.0.emulation = emulation;
        self
    }

    /// The fast tier's write unit, in bytes: a power of two from 64 to 4096. Default: 256, that of Optane modules; 64 suits
    /// memory over CXL. Bytes written to the medium are counted in these, and an emulated bandwidth is spent on them.
    pub fn media_unit_bytes(mut self, bytes: u64) -> AdvancedOptions {
        self.0.media_unit_bytes = bytes;
        self
    }

    /// What becomes of the links of a MemTable's lowest level. Default: [`LinkPolicy::Rebuilt`], where a write waits for the
    /// medium once. [`LinkPolicy::Persisted`] is the paper's way, with two waits; change to it to study that. Either opens
    /// what the other has written. On [`Medium::Dram`](crate::Medium::Dram) they are rebuilt, whatever is set here.
    pub fn memtable_links(mut self, links: LinkPolicy) -> AdvancedOptions {
        self.0.memtable_links = links;
        self
    }

    /// Entries between two keys that are stored whole in a block. Default: 16; from 1 to 65,535.
    pub fn restart_interval(mut self, entries: usize) -> AdvancedOptions {
        self.0.restart_interval = entries;
        self
    }

    /// Which index SLM-DB makes on [`Medium::Dram`](crate::Medium::Dram). Default: [`DramIndex::MemoryTree`]. It belongs to an opening: a
    /// store may be opened with another one at any time. Change it to study the paper's index in plain memory.
    pub fn dram_index(mut self, index: DramIndex) -> AdvancedOptions {
        self.0.dram_index = index;
        self
    }

    /// Size of a B+-tree node, in bytes: a power of two from 256 to 4096. Default: 512. Taken when the index is made.
    pub fn node_bytes(mut self, bytes: u32) -> AdvancedOptions {
        self.0.node_bytes = bytes;
        self
    }

    /// After so many flushed entries an index checkpoint is taken in the background: a file from which the index is rebuilt
    /// quickly, at every opening on `Dram`, and when a pool is lost; it also lets compactions drop deletes. Where the index is
    /// larger than twice that, half of its keys count instead. A clean close on `Dram` takes one after a sixteenth of it.
    /// Default: 4 million. Lower it to open faster after a crash; each costs a file about as long as all keys.
    pub fn checkpoint_entries(mut self, entries: u64) -> AdvancedOptions {
        self.0.checkpoint_entries = entries;
        self
    }

    /// A clean close on `Dram` leaves an image of the index if it has at least so many keys: a file with all of its
    /// entries, some 40 bytes for each key of 20 bytes. The next opening reads it instead of rebuilding the index, and removes it.
    /// Default: a million keys. With `u64::MAX` there is never one, and a checkpoint is taken instead.
    pub fn index_image_keys_min(mut self, keys: u64) -> AdvancedOptions {
        self.0.index_image_keys_min = keys;
        self
    }

    /// Whether table files are mapped for reading where they fit in memory. Default: [`MapTables::Auto`]. A fault in what is mapped is
    /// an error of whoever reads, as ever; for that a handler of `SIGBUS` is installed with the first mapping, which leaves all
    /// other faults to the handler that was there before. With [`MapTables::Never`] there is neither, and reads take longer.
    pub fn map_tables(mut self, map_tables: MapTables) -> AdvancedOptions {
        self.0.map_tables = map_tables;
        self
    }
}
