//! Picks and crashes as text, to be told and to be given back: `1234@cut:only=64.128:but=1200c.torn7+88@kill`.

use std::fmt;
use std::str::FromStr;

use super::pick::{OfFiles, OfPool, Pick};
use crate::files::{Change, ChangeOf, Fate};
use crate::oracle::Ending;

/// A crash, which of its images is meant, and perhaps another crash while that was opened, and so on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CrashId {
    /// Each with its moment, in the recording that it ends.
    pub crashes: Vec<(u64, Pick)>,
}

impl CrashId {
    /// A further crash.
    pub fn and(&self, moment: u64, pick: Pick) -> CrashId {
        let mut crashes = self.crashes.clone();
        crashes.push((moment, pick));
        CrashId { crashes }
    }
}

impl fmt::Display for CrashId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (moment, pick)) in self.crashes.iter().enumerate() {
            write!(formatter, "{}{moment}@{pick}", if index > 0 { "+" } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for CrashId {
    type Err = String;

    fn from_str(text: &str) -> Result<CrashId, String> {
        let crash = |text: &str| {
            let (moment, pick) = text.split_once('@').ok_or_else(|| format!("{text:?} has no @"))?;
            Ok((number(moment)?, pick.parse()?))
        };
        Ok(CrashId { crashes: text.split('+').map(crash).collect::<Result<_, String>>()? })
    }
}

impl fmt::Display for Pick {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ending {
            Ending::Kill => formatter.write_str("kill"),
            Ending::PowerCut => write!(formatter, "cut:{}:{}", self.pool, self.files),
        }
    }
}

impl FromStr for Pick {
    type Err = String;

    fn from_str(text: &str) -> Result<Pick, String> {
        if text == "kill" {
            return Ok(Pick::KILL);
        }
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["cut", pool, files] => Ok(Pick::cut(pool.parse()?, files.parse()?)),
            _ => Err(format!("{text:?} is neither a kill nor a cut")),
        }
    }
}

impl fmt::Display for OfPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = |name, one, other: Option<u64>| {
            write!(formatter, "{name}={one}")?;
            other.map_or(Ok(()), |other| write!(formatter, ".{other}"))
        };
        match *self {
            OfPool::Nothing => formatter.write_str("none"),
            OfPool::All => formatter.write_str("all"),
            OfPool::Only(one, other) => lines("only", one, other),
            OfPool::AllBut(one, other) => lines("but", one, other),
            OfPool::AllButOwed => formatter.write_str("but-owed"),
            OfPool::AllButUnfenced => formatter.write_str("but-unfenced"),
            OfPool::Since(moment) => write!(formatter, "since={moment}"),
            OfPool::Random(seed) => write!(formatter, "chance={seed}"),
        }
    }
}

impl FromStr for OfPool {
    type Err = String;

    fn from_str(text: &str) -> Result<OfPool, String> {
        let (name, first, second) = named(text);
        match (name, first, second) {
            ("none", None, None) => Ok(OfPool::Nothing),
            ("all", None, None) => Ok(OfPool::All),
            ("only", Some(one), other) => Ok(OfPool::Only(number(one)?, other.map(number).transpose()?)),
            ("but", Some(one), other) => Ok(OfPool::AllBut(number(one)?, other.map(number).transpose()?)),
            ("but-owed", None, None) => Ok(OfPool::AllButOwed),
            ("but-unfenced", None, None) => Ok(OfPool::AllButUnfenced),
            ("since", Some(moment), None) => Ok(OfPool::Since(number(moment)?)),
            ("chance", Some(seed), None) => Ok(OfPool::Random(number(seed)?)),
            _ => Err(format!("{text:?} says nothing of a pool")),
        }
    }
}

impl fmt::Display for OfFiles {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            OfFiles::Nothing => formatter.write_str("none"),
            OfFiles::All => formatter.write_str("all"),
            OfFiles::Only(one, None) => write!(formatter, "only={one}"),
            OfFiles::Only(one, Some(other)) => write!(formatter, "only={one}.{other}"),
            OfFiles::AllBut(one, fate) => write!(formatter, "but={one}.{fate}"),
            OfFiles::AllButOwed => formatter.write_str("but-owed"),
            OfFiles::Since(moment) => write!(formatter, "since={moment}"),
            OfFiles::Random(seed) => write!(formatter, "chance={seed}"),
        }
    }
}

impl FromStr for OfFiles {
    type Err = String;

    fn from_str(text: &str) -> Result<OfFiles, String> {
        let (name, first, second) = named(text);
        match (name, first, second) {
            ("none", None, None) => Ok(OfFiles::Nothing),
            ("all", None, None) => Ok(OfFiles::All),
            ("only", Some(one), other) => Ok(OfFiles::Only(one.parse()?, other.map(str::parse).transpose()?)),
            ("but", Some(one), Some(fate)) => Ok(OfFiles::AllBut(one.parse()?, fate.parse()?)),
            ("but-owed", None, None) => Ok(OfFiles::AllButOwed),
            ("since", Some(moment), None) => Ok(OfFiles::Since(number(moment)?)),
            ("chance", Some(seed), None) => Ok(OfFiles::Random(number(seed)?)),
            _ => Err(format!("{text:?} says nothing of files")),
        }
    }
}

/// `name=first.second`.
fn named(text: &str) -> (&str, Option<&str>, Option<&str>) {
    let (name, values) = text.split_once('=').map_or((text, None), |(name, values)| (name, Some(values)));
    match values.map(|values| values.split_once('.').unwrap_or((values, ""))) {
        None => (name, None, None),
        Some((first, second)) => (name, Some(first), Some(second).filter(|second| !second.is_empty())),
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match self.of {
            ChangeOf::Content => 'c',
            ChangeOf::Length => 'l',
            ChangeOf::Name => 'n',
        };
        write!(formatter, "{}{of}", self.moment)
    }
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Change, String> {
        let kinds = [('c', ChangeOf::Content), ('l', ChangeOf::Length), ('n', ChangeOf::Name)];
        let found = kinds.iter().find_map(|(letter, of)| Some((text.strip_suffix(*letter)?, *of)));
        let (moment, of) = found.ok_or_else(|| format!("{text:?} is no change"))?;
        Ok(Change { moment: number(moment)?, of })
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Kept => formatter.write_str("kept"),
            Fate::Dropped => formatter.write_str("dropped"),
            Fate::Torn(seed) => write!(formatter, "torn{seed}"),
            Fate::Zeroed => formatter.write_str("zeroed"),
            Fate::Garbage(seed) => write!(formatter, "garbage{seed}"),
        }
    }
}

impl FromStr for Fate {
    type Err = String;

    fn from_str(text: &str) -> Result<Fate, String> {
        match (text, text.strip_prefix("torn"), text.strip_prefix("garbage")) {
            ("kept", ..) => Ok(Fate::Kept),
            ("dropped", ..) => Ok(Fate::Dropped),
            ("zeroed", ..) => Ok(Fate::Zeroed),
            (_, Some(seed), _) => Ok(Fate::Torn(number(seed)?)),
            (_, _, Some(seed)) => Ok(Fate::Garbage(number(seed)?)),
            _ => Err(format!("{text:?} is no fate")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_is_the_same_after_it_was_told() {
        let (one, other) = (Change { moment: 12, of: ChangeOf::Content }, Change { moment: 13, of: ChangeOf::Name });
        let length = Change { moment: 5, of: ChangeOf::Length };
        let pools = [
            OfPool::Nothing,
            OfPool::All,
            OfPool::Only(64, None),
            OfPool::Only(64, Some(128)),
            OfPool::AllBut(0, None),
            OfPool::AllBut(0, Some(u64::MAX)),
            OfPool::AllButOwed,
            OfPool::AllButUnfenced,
            OfPool::Since(12),
            OfPool::Random(7),
        ];
        let fates = [Fate::Kept, Fate::Dropped, Fate::Torn(3), Fate::Zeroed, Fate::Garbage(u64::MAX)];
        let mut files =
            vec![OfFiles::Nothing, OfFiles::All, OfFiles::AllButOwed, OfFiles::Only(one, None), OfFiles::Random(9)];
        files.push(OfFiles::Since(12));
        files.push(OfFiles::Only(length, Some(other)));
        files.extend(fates.map(|fate| OfFiles::AllBut(one, fate)));
        let mut id = CrashId::default().and(3, Pick::KILL);
        for pool in pools {
            for files in &files {
                id = id.and(u64::MAX, Pick::cut(pool, *files));
            }
        }
        assert_eq!(id.to_string().parse::<CrashId>().unwrap(), id);
        assert_eq!("3@kill".parse::<CrashId>().unwrap(), CrashId::default().and(3, Pick::KILL));
    }

    #[test]
    fn what_is_no_crash_is_refused() {
        for text in
            ["", "3", "@kill", "3@", "3@kil", "3@cut", "3@cut:all", "3@cut:all:all:all", "3@cut:all:but=3c", "x@kill"]
        {
            assert!(text.parse::<CrashId>().is_err(), "{text:?}");
        }
        for text in ["3@cut:only:all", "3@cut:only=x:all", "3@cut:all:only=3", "3@cut:all:but=3c.torn", "3@kill+"] {
            assert!(text.parse::<CrashId>().is_err(), "{text:?}");
        }
    }
}
