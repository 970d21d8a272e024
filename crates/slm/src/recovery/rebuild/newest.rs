//! Which version of a key counts, when the index is made from files alone.
//!
//! Without a checkpoint, it is the version with the largest sequence number; a delete hides what is older. If two files
//! have the same version, a compaction has copied it, and the file with the larger number has it (INV-17). One
//! exception: if one of the two is a delete, it does not count, because `repair` has put it in the place of a copy that
//! it could not read.
//!
//! A checkpoint knows every flush up to S, and what it says counts like an entry. Entries of files that it has not seen
//! count above S. At or below S they are copies that a compaction made, and count only if the checkpoint has that key
//! at that very number. A version that the checkpoint did not have was dead when it was taken, and the delete that
//! killed it may have been dropped since.
//!
//! A repair reads all files, and believes them before the checkpoint: the two may contradict each other. The version with
//! the largest sequence number that any file has counts, or nothing does. So the index never points to a version that is
//! older than another one in a file. The checkpoint still tells two things that no file can: that the newest put was
//! deleted, where the delete may be gone; and that there was a newer version, which is lost.

use slmdb_table::EntryKind;

use crate::recovery::rebuild::sources::Version;

/// The versions of one key.
#[derive(Debug, Default)]
pub(crate) struct Newest {
    best: Option<Version>,
    /// The checkpoint's version.
    checkpointed: Option<Version>,
    /// Entries at or below S.
    copies: Vec<Version>,
}

/// What becomes of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The index points to this version, a put in the file at this position.
    Live(Version, usize),
    /// The index does not have the key.
    Absent,
    /// It had a value at this sequence number that no file has any more, and no newer version exists. Or, in a repair: a
    /// file has a delete with this number, and the checkpoint, which should know of it, has an older value.
    Lost(u64),
}

/// What is ranked higher counts. A version in the checkpoint and in its file is the same.
fn rank(version: &Version) -> (u64, bool, Option<usize>, bool) {
    (version.sequence, version.kind == EntryKind::Put, version.file, version.is_of_checkpoint)
}

impl Newest {
    /// Takes a version into account. `through`: S, or 0 without a checkpoint.
    pub(crate) fn consider(&mut self, version: Version, through: u64) {
        if version.is_of_checkpoint {
            self.checkpointed = Some(version);
        } else if version.sequence <= through {
            self.copies.push(version);
        } else {
            self.take(version);
        }
    }

    fn take(&mut self, version: Version) {
        if self.best.as_ref().is_none_or(|best| rank(&version) > rank(best)) {
            self.best = Some(version);
        }
    }

    /// Decides on the key, and clears the versions. File positions are in the order of file numbers, so they compare
    /// like these.
    pub(crate) fn decide(&mut self) -> Verdict {
        let checkpointed = self.checkpointed.take();
        if let Some(checkpointed) = checkpointed {
            let is_copy = |copy: &Version| copy.sequence == checkpointed.sequence && copy.kind == EntryKind::Put;
            let copies = std::mem::take(&mut self.copies);
            copies.iter().filter(|copy| is_copy(copy)).for_each(|&copy| self.take(copy));
            if checkpointed.file.is_some() {
                self.take(checkpointed);
            }
        }
        self.copies.clear();
        match (self.best.take(), checkpointed) {
            (Some(best), Some(lost)) if best.sequence < lost.sequence => Verdict::Lost(lost.sequence),
            (None, Some(lost)) => Verdict::Lost(lost.sequence),
            (Some(Version { kind: EntryKind::Delete, .. }), _) | (None, None) => Verdict::Absent,
            (Some(best), _) => best.file.map_or(Verdict::Absent, |file| Verdict::Live(best, file)),
        }
    }

    /// Decides on the key in a repair, and clears the versions. REQUIRES: all versions that files have were considered.
    /// Deletes up to `deletes_gone_through` may be in no file any more.
    pub(crate) fn decide_in_repair(&mut self, deletes_gone_through: u64) -> Verdict {
        let (checkpointed, above) = (self.checkpointed.take(), self.best.take());
        let copy = self.copies.drain(..).max_by_key(rank);
        let Some(newest) = above.or(copy) else {
            return checkpointed.map_or(Verdict::Absent, |lost| Verdict::Lost(lost.sequence));
        };
        // The checkpoint should know of it.
        let is_copy = above.is_none();
        match checkpointed {
            Some(lost) if newest.sequence < lost.sequence => Verdict::Lost(lost.sequence),
            Some(_) if is_copy && newest.kind == EntryKind::Delete => Verdict::Lost(newest.sequence),
            None if is_copy && newest.sequence <= deletes_gone_through => Verdict::Absent,
            _ if newest.kind == EntryKind::Delete => Verdict::Absent,
            _ => newest.file.map_or(Verdict::Absent, |file| Verdict::Live(newest, file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slmdb_table::Place;

    fn version(sequence: u64, kind: EntryKind, file: Option<usize>, is_of_checkpoint: bool) -> Version {
        Version { sequence, kind, place: Place { offset: 0, length: 100 }, file, is_of_checkpoint }
    }

    fn put(sequence: u64, file: usize) -> Version {
        version(sequence, EntryKind::Put, Some(file), false)
    }

    fn delete(sequence: u64, file: usize) -> Version {
        version(sequence, EntryKind::Delete, Some(file), false)
    }

    fn checkpoint(sequence: u64, file: Option<usize>) -> Version {
        version(sequence, EntryKind::Put, file, true)
    }

    fn verdict(versions: &[Version], through: u64) -> Verdict {
        verdict_by(versions, through, Newest::decide)
    }

    /// As a repair decides that has all files.
    fn verdict_in_repair(versions: &[Version], through: u64, deletes_gone_through: u64) -> Verdict {
        verdict_by(versions, through, |newest| newest.decide_in_repair(deletes_gone_through))
    }

    /// In every order.
    fn verdict_by(versions: &[Version], through: u64, decide: impl Fn(&mut Newest) -> Verdict) -> Verdict {
        fn all_orders(rest: Vec<Version>, done: Vec<Version>, each: &mut dyn FnMut(&[Version])) {
            if rest.is_empty() {
                return each(&done);
            }
            for at in 0..rest.len() {
                let (mut rest, mut done) = (rest.clone(), done.clone());
                done.push(rest.remove(at));
                all_orders(rest, done, each);
            }
        }
        let mut verdicts = Vec::new();
        let mut newest = Newest::default();
        all_orders(versions.to_vec(), Vec::new(), &mut |order| {
            order.iter().for_each(|&version| newest.consider(version, through));
            verdicts.push(decide(&mut newest));
        });
        assert!(verdicts.windows(2).all(|pair| pair[0] == pair[1]), "{verdicts:?}");
        verdicts.remove(0)
    }

    fn live(version: Version) -> Verdict {
        Verdict::Live(version, version.file.unwrap())
    }

    #[test]
    fn the_newest_wins_and_a_delete_hides_what_is_older() {
        assert_eq!(verdict(&[put(5, 9), put(7, 1)], 0), live(put(7, 1)), "whatever the files' numbers");
        assert_eq!(verdict(&[put(5, 9), delete(7, 1), put(6, 3)], 0), Verdict::Absent);
        assert_eq!(verdict(&[put(8, 2), delete(7, 3)], 0), live(put(8, 2)));
        assert_eq!(verdict(&[put(5, 1), put(5, 4), put(5, 2)], 0), live(put(5, 4)), "the last copy");
    }

    #[test]
    fn an_unreadable_copy_costs_nothing_where_there_is_another() {
        assert_eq!(verdict(&[put(5, 2), delete(5, 9)], 0), live(put(5, 2)));
        assert_eq!(verdict(&[put(5, 2), delete(5, 9), put(4, 1)], 3), live(put(5, 2)));
        assert_eq!(verdict(&[delete(5, 9), put(4, 1)], 0), Verdict::Absent);
    }

    #[test]
    fn what_a_checkpoint_did_not_have_any_more_does_not_come_back() {
        // The delete at 7 is dropped; a compaction has copied the dead put at 5 into a file that is new.
        assert_eq!(verdict(&[put(5, 9)], 10), Verdict::Absent);
        assert_eq!(verdict(&[put(5, 9), checkpoint(8, Some(2))], 10), live(checkpoint(8, Some(2))));
        assert_eq!(verdict(&[delete(7, 9), checkpoint(8, Some(2))], 10), live(checkpoint(8, Some(2))));
        // A delete and a put with the same number are no copies of each other.
        assert_eq!(verdict(&[delete(8, 9), checkpoint(8, Some(2))], 10), live(checkpoint(8, Some(2))));
    }

    #[test]
    fn what_was_moved_since_is_found_where_it_is_now() {
        assert_eq!(verdict(&[put(8, 9), checkpoint(8, None)], 10), live(put(8, 9)));
        assert_eq!(verdict(&[put(8, 9), put(8, 7), checkpoint(8, Some(2))], 10), live(put(8, 9)));
        // The scan may have seen what was flushed after S.
        let seen_twice = verdict(&[put(12, 4), checkpoint(12, Some(4))], 10);
        assert!(matches!(seen_twice, Verdict::Live(Version { sequence: 12, .. }, 4)));
        assert_eq!(verdict(&[put(12, 9), checkpoint(12, None)], 10), live(put(12, 9)));
    }

    #[test]
    fn what_is_newer_than_the_checkpoint_wins() {
        assert_eq!(verdict(&[put(11, 9), checkpoint(8, None)], 10), live(put(11, 9)));
        assert_eq!(verdict(&[delete(11, 9), checkpoint(8, Some(1))], 10), Verdict::Absent);
        assert_eq!(verdict(&[delete(11, 9), put(12, 3), checkpoint(8, Some(1))], 10), live(put(12, 3)));
    }

    #[test]
    fn what_is_gone_with_nothing_in_its_place_is_told() {
        assert_eq!(verdict(&[checkpoint(8, None)], 10), Verdict::Lost(8));
        assert_eq!(verdict(&[put(7, 9), checkpoint(8, None)], 10), Verdict::Lost(8));
        assert_eq!(verdict(&[put(11, 9), checkpoint(12, None)], 10), Verdict::Lost(12));
    }

    #[test]
    fn a_repair_points_to_nothing_older_than_what_a_file_has() {
        let in_repair = |versions: &[Version]| verdict_in_repair(versions, 10, 0);
        let of_checkpoint = checkpoint(5, None);
        assert_eq!(in_repair(&[delete(8, 9), put(5, 2), of_checkpoint]), Verdict::Lost(8), "a delete it did not know");
        assert_eq!(in_repair(&[put(8, 9), put(5, 2), of_checkpoint]), live(put(8, 9)), "a put that it did not know");
        assert_eq!(in_repair(&[put(8, 9), of_checkpoint]), live(put(8, 9)));
        assert_eq!(in_repair(&[delete(5, 9), put(4, 2), of_checkpoint]), Verdict::Lost(5), "a copy that can't be read");
        assert_eq!(in_repair(&[delete(12, 9), put(5, 2), of_checkpoint]), Verdict::Absent);
    }

    #[test]
    fn a_repair_believes_a_checkpoint_where_no_file_says_otherwise() {
        assert_eq!(verdict_in_repair(&[put(8, 9), put(8, 7), checkpoint(8, None)], 10, 0), live(put(8, 9)));
        assert_eq!(verdict_in_repair(&[checkpoint(8, None)], 10, 0), Verdict::Lost(8));
        assert_eq!(verdict_in_repair(&[put(7, 9), checkpoint(8, None)], 10, 0), Verdict::Lost(8));
        assert_eq!(verdict_in_repair(&[put(11, 9), checkpoint(12, None)], 10, 0), Verdict::Lost(12));
        assert_eq!(verdict_in_repair(&[put(12, 9), checkpoint(12, None)], 10, 0), live(put(12, 9)));
    }

    #[test]
    fn a_repair_takes_a_key_for_deleted_only_where_its_delete_may_be_gone() {
        assert_eq!(verdict_in_repair(&[put(5, 9)], 10, 7), Verdict::Absent, "it was dropped");
        assert_eq!(verdict_in_repair(&[put(5, 9)], 10, 4), live(put(5, 9)), "no file has a delete, and none is gone");
        assert_eq!(verdict_in_repair(&[put(5, 9), delete(6, 3)], 10, 0), Verdict::Absent);
        assert_eq!(verdict_in_repair(&[put(11, 9)], 10, 20), live(put(11, 9)), "it is newer than the checkpoint");
    }
}
