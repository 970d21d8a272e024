//! [`Extent`]: a piece of a pool, and what it holds.

/// What an extent holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ExtentKind {
    /// The pool's header and root area: one, at offset 0.
    Header = 1,
    /// The extent map of a region.
    Map = 2,
    /// Memory of a MemTable.
    Arena = 3,
    /// Key records of one table file: all of them, or a part.
    KeySegment = 4,
    /// Fixed-size blocks; see [`Blocks`](crate::Blocks).
    Blocks = 5,
    /// Slots for leaves of a hybrid tree; see [`Slots`](crate::Slots).
    Leaves = 6,
    /// Slots for records of a hybrid tree, all of one size.
    Records = 7,
    /// A packed list of TLSM: a sorted run, without its entries.
    List = 8,
    /// Entries that such lists point at.
    Segment = 9,
    /// A hash table of ChameleonDB: slots that lead to entries, and no entries.
    HashTable = 10,
}

impl ExtentKind {
    /// Whether extents of this kind carry checksums of their own. Their maker writes them once, and makes them durable
    /// before anything names them. So the pool neither sums nor writes back what they contain, and its closing and
    /// opening take no longer because of them.
    pub fn checks_itself(self) -> bool {
        matches!(self, ExtentKind::List | ExtentKind::Segment | ExtentKind::HashTable)
    }

    /// The kind that a byte of the map stands for.
    #[inline]
    pub(crate) fn from_byte(byte: u8) -> Option<ExtentKind> {
        Some(match byte {
            1 => ExtentKind::Header,
            2 => ExtentKind::Map,
            3 => ExtentKind::Arena,
            4 => ExtentKind::KeySegment,
            5 => ExtentKind::Blocks,
            6 => ExtentKind::Leaves,
            7 => ExtentKind::Records,
            8 => ExtentKind::List,
            9 => ExtentKind::Segment,
            10 => ExtentKind::HashTable,
            _ => return None,
        })
    }

    /// Whether extents of this kind are the pool's own: neither given out nor freed.
    pub(crate) fn is_internal(self) -> bool {
        matches!(self, ExtentKind::Header | ExtentKind::Map)
    }
}

/// A typed piece of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins, in bytes; a multiple of [`UNIT_BYTES`](crate::UNIT_BYTES).
    pub offset: u64,
    /// Its length in bytes; a multiple of [`UNIT_BYTES`](crate::UNIT_BYTES).
    pub length_bytes: u64,
    /// What it holds.
    pub kind: ExtentKind,
    /// Whose it is, as its maker said: a file number, an arena's generation, a block size.
    pub owner: u32,
}

impl Extent {
    /// Where it ends, in bytes.
    #[inline]
    pub fn end(&self) -> u64 {
        self.offset + self.length_bytes
    }
}
