//! The versions of peers that are crates.

/// The version of a crate that this is built with.
pub fn version_of(package: &str) -> &'static str {
    let lock = include_str!("../../Cargo.lock");
    let mut lines = lock.lines().skip_while(|line| *line != format!("name = \"{package}\""));
    lines
        .nth(1)
        .and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
        .unwrap_or("of an unknown version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        for package in ["fjall", "redb", "lmdb-master-sys"] {
            assert!(version_of(package).starts_with(|first: char| first.is_ascii_digit()), "{}", version_of(package));
        }
        assert_eq!(version_of("none of that name"), "of an unknown version");
    }
}
