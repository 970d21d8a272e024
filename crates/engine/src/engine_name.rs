//! [`EngineName`]: the engine that a store is made with.

use std::fmt;
use std::str::FromStr;

use slmdb_env::Error;

/// The engines. A store keeps the one that it was made with. A build may lack some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum EngineName {
    /// SLM-DB (FAST '19): one level of table files under a B+-tree in persistent memory. The default.
    #[default]
    Slm,
    /// LAB-DB (ACM TOS 20(1), 2024): a pair of B+-trees for the newest keys, above the levels of an LSM tree.
    Lab,
    /// TLSM (IEEE Access 8, 2020): an LSM tree whose upper levels lie in the pool, keys and values. For a large fast tier that is
    /// persistent; on `Dram` it is an ordinary LSM tree.
    Tlsm,
    /// ChameleonDB (EuroSys '21): hash tables lead to the newest entry of each key, most of them on the disk or in the pool. For
    /// very many keys that are read and written singly; ranges are slow. Not in every build.
    Chameleon,
}

impl EngineName {
    /// All of them.
    pub const ALL: [EngineName; 4] = [EngineName::Slm, EngineName::Lab, EngineName::Tlsm, EngineName::Chameleon];

    /// Its name in MANIFEST and command line.
    pub fn as_str(self) -> &'static str {
        match self {
            EngineName::Slm => "slm",
            EngineName::Lab => "lab",
            EngineName::Tlsm => "tlsm",
            EngineName::Chameleon => "chameleon",
        }
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for EngineName {
    type Err = Error;

    /// [`Error::Invalid`] for any other text.
    fn from_str(text: &str) -> Result<EngineName, Error> {
        let named = EngineName::ALL.into_iter().find(|name| name.as_str() == text);
        named.ok_or_else(|| {
            Error::invalid(format!("there is no engine {text:?}; there are slm, lab, tlsm and chameleon"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_read_as_it_is_written() {
        for name in EngineName::ALL {
            assert_eq!(name.to_string().parse::<EngineName>().unwrap(), name);
        }
        for other in ["", "SLM", "slm ", "rocksdb"] {
            assert!(matches!(other.parse::<EngineName>(), Err(Error::Invalid { .. })), "{other:?}");
        }
    }
}
