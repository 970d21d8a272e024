//! A range of keys, as verbs take it, and the walk through it, which `scan` and `export` share.
//!
//! The walk uses a cursor, not an iterator of pairs, because a cursor reads a value only when it is asked for one.

use std::ops::Bound;

use slmdb::Cursor;

use crate::bytes::Word;
use crate::failure::Result;

/// Which keys: all limits given hold together.
#[derive(clap::Args, Debug)]
pub struct SpanArguments {
    /// Start at this key; it is included
    #[arg(long, value_name = "KEY", value_parser = Word::parser(), allow_hyphen_values = true)]
    from: Option<Word>,
    /// End before this key; it is not included
    #[arg(long, value_name = "KEY", value_parser = Word::parser(), allow_hyphen_values = true)]
    to: Option<Word>,
    /// Only keys that begin with this
    #[arg(long, value_name = "KEY", value_parser = Word::parser(), allow_hyphen_values = true)]
    prefix: Option<Word>,
}

impl SpanArguments {
    /// The keys in all of these limits.
    pub fn span(&self) -> Span {
        let bytes = |word: &Option<Word>| word.as_ref().map(|word| word.0.clone());
        Span::new(bytes(&self.from), bytes(&self.to), bytes(&self.prefix))
    }
}

/// Keys from `from` (included; none: the first) to `to` (excluded; none: the last, included).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

impl Span {
    /// Every key.
    pub fn everything() -> Span {
        Span::default()
    }

    /// The keys in all of these limits.
    pub fn new(from: Option<Vec<u8>>, to: Option<Vec<u8>>, prefix: Option<Vec<u8>>) -> Span {
        let mut span = Span { from, to };
        if let Some(prefix) = prefix {
            if let Some(after) = successor(&prefix) {
                span.to = Some(span.to.map_or(after.clone(), |to| to.min(after)));
            }
            span.from = Some(span.from.map_or(prefix.clone(), |from| from.max(prefix)));
        }
        span
    }

    /// Visits the keys in order, or backwards, up to `limit` of them, and gives their number. The cursor is a new one.
    pub fn walk(
        &self,
        mut cursor: Cursor,
        reverse: bool,
        limit: Option<u64>,
        mut visit: impl FnMut(&mut Cursor) -> Result<()>,
    ) -> Result<u64> {
        if limit == Some(0) || self.is_empty() {
            return Ok(0);
        }
        match (reverse, &self.from, &self.to) {
            (false, Some(from), _) => cursor.seek(from)?,
            (false, None, _) => cursor.seek_first()?,
            (true, _, Some(to)) => cursor.seek_before(to)?,
            (true, _, None) => cursor.seek_last()?,
        }
        let mut visited = 0;
        while cursor.valid() && self.holds(cursor.key()) {
            visit(&mut cursor)?;
            visited += 1;
            if limit == Some(visited) {
                break;
            }
            if reverse { cursor.prev()? } else { cursor.next()? }
        }
        Ok(visited)
    }

    /// The same as bounds.
    pub fn bounds(&self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let from = self.from.clone().map_or(Bound::Unbounded, Bound::Included);
        (from, self.to.clone().map_or(Bound::Unbounded, Bound::Excluded))
    }

    fn is_empty(&self) -> bool {
        matches!((&self.from, &self.to), (Some(from), Some(to)) if from >= to)
    }

    fn holds(&self, key: &[u8]) -> bool {
        self.from.as_deref().is_none_or(|from| from <= key) && self.to.as_deref().is_none_or(|to| key < to)
    }
}

/// The smallest key that is greater than every key with this prefix; none if there is no such key.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: Option<&[u8]>, to: Option<&[u8]>, prefix: Option<&[u8]>) -> Span {
        Span::new(from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec), prefix.map(<[u8]>::to_vec))
    }

    #[test]
    fn the_successor_of_a_prefix() {
        assert_eq!(successor(b"a"), Some(b"b".to_vec()));
        assert_eq!(successor(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(successor(b"\xff"), None);
        assert_eq!(successor(b""), None);
    }

    #[test]
    fn a_prefix_and_limits_intersect() {
        assert_eq!(span(None, None, Some(b"b")), span(Some(b"b"), Some(b"c"), None));
        assert_eq!(span(Some(b"a"), Some(b"z"), Some(b"b")), span(Some(b"b"), Some(b"c"), None));
        assert_eq!(span(Some(b"bb"), Some(b"bx"), Some(b"b")), span(Some(b"bb"), Some(b"bx"), None));
        assert_eq!(span(None, Some(b"\xff\x01"), Some(b"\xff")), span(Some(b"\xff"), Some(b"\xff\x01"), None));
        assert!(span(Some(b"x"), None, Some(b"b")).is_empty());
        assert!(span(Some(b"x"), Some(b"x"), None).is_empty());
        assert!(!Span::everything().is_empty());
        assert!(span(None, None, Some(b"")).holds(b""));
        assert!(span(None, None, Some(b"\xff")).holds(b"\xff\xff"));
    }
}
