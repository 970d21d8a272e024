//! Verbs that the shell does not have: known by name, so that they are answered with what is so instead of "unknown".

use crate::failure::Failure;

/// What is answered to a verb of that name, if it is one of these.
pub fn not_in_the_shell(name: &[u8]) -> Option<Failure> {
    let text = match name {
        b"repair" => "`repair` is for stores that nobody has open: `slmdb repair --db DIR`",
        b"bench" => "`bench` makes stores of its own: `slmdb bench`",
        _ => return None,
    };
    Some(Failure::unsupported(text))
}
