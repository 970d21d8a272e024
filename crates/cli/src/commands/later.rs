//! Verbs that are planned: known by name, so that they are answered with what is so instead of "unrecognized".

use std::ffi::OsString;

use crate::failure::Failure;

/// Whatever was said to it.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _rest: Vec<OsString>,
}

/// A verb of a later version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Later {
    /// `repair` in the shell
    Repair,
    /// `bench`
    Bench,
}

impl Later {
    /// The verb of that name, if it is one of these.
    pub fn by_name(name: &[u8]) -> Option<Later> {
        Some(match name {
            b"repair" => Later::Repair,
            b"bench" => Later::Bench,
            _ => return None,
        })
    }

    /// What is answered.
    pub fn failure(self) -> Failure {
        let (name, instead) = match self {
            Later::Repair => {
                return Failure::unsupported("`repair` is for stores that nobody has open: `slmdb repair --db DIR`");
            }
            Later::Bench => ("bench", "`slmdb demo` prints this machine's rates"),
        };
        Failure::unsupported(format!("`{name}` is not in this version yet; {instead}"))
    }
}
