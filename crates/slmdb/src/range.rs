//! [`Range`] and [`Keys`]: the entries of a store between two bounds, as double-ended iterators.

use std::ops::{Bound, RangeBounds};

use slmdb_engine::{EngineCursor, Error, KeyOrder, Result, Slice};

use crate::own::Own;

/// Lower and upper bound of a range of keys.
pub(crate) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The bounds of a range as they are kept.
pub(crate) fn bounds_of<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> Bounds {
    let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
    (owned(range.start_bound()), owned(range.end_bound()))
}

/// The bounds of the keys that start with `prefix`, which are next to each other in the order by bytes alone.
pub(crate) fn bounds_of_prefix(prefix: &[u8], order: &KeyOrder) -> Result<Bounds> {
    if order.is_bytewise() || prefix.is_empty() {
        return Ok(of_prefix(prefix));
    }
    let what = format!("keys with a prefix are no range in the order {:?}; use bounds instead", order.name());
    Err(Error::invalid(what))
}

/// The bounds of the keys that start with `prefix`, ordered by bytes: up to the shortest string that is larger than all of them.
fn of_prefix(prefix: &[u8]) -> Bounds {
    if prefix.is_empty() {
        return (Bound::Unbounded, Bound::Unbounded);
    }
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return (Bound::Included(prefix.to_vec()), Bound::Excluded(end));
        }
    }
    (Bound::Included(prefix.to_vec()), Bound::Unbounded)
}

/// The entries of a range, in the store's order of keys, from either end, as they were when it was made. After an error it ends.
pub struct Range {
    walk: Walk,
}

/// The keys of a range; as [`Range`], but no table file is read.
pub struct Keys {
    walk: Walk,
}

/// Two ends that come towards each other, at one moment: one cursor serves both.
struct Walk {
    cursor: Own<Box<dyn EngineCursor>>,
    /// The order of the store's keys.
    order: KeyOrder,
    bounds: Bounds,
    /// Which end the cursor stands at, and already on the entry that was given last from there.
    standing: Standing,
    ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Nowhere,
    Front,
    Back,
}

impl Range {
    pub(crate) fn new(cursor: Box<dyn EngineCursor>, order: KeyOrder, bounds: Bounds) -> Range {
        Range { walk: Walk { cursor: Own::new(cursor), order, bounds, standing: Standing::Nowhere, ended: false } }
    }

    /// The keys alone; no table file is read for them.
    pub fn keys_only(self) -> Keys {
        Keys { walk: self.walk }
    }
}

impl Walk {
    /// One step from the front: whether there is an entry, which the cursor is then on.
    fn step_forward(&mut self) -> Result<bool> {
        let cursor = self.cursor.get_mut()?;
        if self.standing == Standing::Front {
            cursor.next()?;
        } else {
            match &self.bounds.0 {
                Bound::Unbounded => cursor.seek_first()?,
                Bound::Included(key) => cursor.seek(key)?,
                Bound::Excluded(key) => {
                    cursor.seek(key)?;
                    if cursor.valid() && cursor.key() == key {
                        cursor.next()?;
                    }
                }
            }
        }
        self.standing = Standing::Front;
        let inside = cursor.valid() && self.order.is_up_to(cursor.key(), self.bounds.1.as_ref());
        if inside {
            self.bounds.0 = Bound::Excluded(cursor.key().to_vec());
        }
        Ok(inside)
    }

    /// One step from the back.
    fn step_backward(&mut self) -> Result<bool> {
        let cursor = self.cursor.get_mut()?;
        if self.standing == Standing::Back {
            cursor.prev()?;
        } else {
            match &self.bounds.1 {
                Bound::Unbounded => cursor.seek_last()?,
                Bound::Excluded(key) => cursor.seek_before(key)?,
                Bound::Included(key) => {
                    cursor.seek(key)?;
                    if !(cursor.valid() && cursor.key() == key) {
                        cursor.seek_before(key)?;
                    }
                }
            }
        }
        self.standing = Standing::Back;
        let inside = cursor.valid() && self.order.is_from(cursor.key(), self.bounds.0.as_ref());
        if inside {
            self.bounds.1 = Bound::Excluded(cursor.key().to_vec());
        }
        Ok(inside)
    }

    /// One step and what is wanted of the entry it leads to; an end or an error ends the iterator for good.
    fn item<T>(
        &mut self,
        step: impl FnOnce(&mut Walk) -> Result<bool>,
        take: impl FnOnce(&mut dyn EngineCursor) -> Result<T>,
    ) -> Option<Result<T>> {
        if self.ended {
            return None;
        }
        let item = match step(self) {
            Ok(true) => Some(self.cursor.get_mut().and_then(|cursor| take(&mut **cursor))),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        };
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

fn entry(cursor: &mut dyn EngineCursor) -> Result<(Slice, Slice)> {
    let value = cursor.value()?;
    Ok((Slice::from(cursor.key()), value))
}

fn key(cursor: &mut dyn EngineCursor) -> Result<Slice> {
    Ok(Slice::from(cursor.key()))
}

impl Iterator for Range {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.walk.item(Walk::step_forward, entry)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.walk.item(Walk::step_backward, entry)
    }
}

impl std::iter::FusedIterator for Range {}

impl Iterator for Keys {
    type Item = Result<Slice>;

    fn next(&mut self) -> Option<Self::Item> {
        self.walk.item(Walk::step_forward, key)
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.walk.item(Walk::step_backward, key)
    }
}

impl std::iter::FusedIterator for Keys {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_first_longer_string() {
        let upper = |prefix: &[u8]| of_prefix(prefix).1;
        assert_eq!(upper(b"ab"), Bound::Excluded(b"ac".to_vec()));
        assert_eq!(upper(b"a\xff\xff"), Bound::Excluded(b"b".to_vec()));
        assert_eq!(upper(b"\xff"), Bound::Unbounded);
        assert_eq!(upper(b""), Bound::Unbounded);
    }
}
