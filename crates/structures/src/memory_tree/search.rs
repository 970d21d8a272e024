//! Counting heads: the first step of a search in a node.
//!
//! Heads are signed numbers in ascending order. How many are below one, and how many are not above it, is counted over all of
//! them, four at a time and without a branch: for the at most 128 heads of a node that is quicker than halving, whose branches
//! nobody can foresee.

/// How many heads are below `head`, and how many are below it or equal.
#[inline(always)]
pub(super) fn below_and_upto(heads: &[i32], head: i32) -> (usize, usize) {
    #[cfg(target_arch = "x86_64")]
    return four_at_a_time(heads, head);
    #[cfg(not(target_arch = "x86_64"))]
    one_by_one(heads, head)
}

/// REQUIRES: the number of heads is a multiple of 4.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn four_at_a_time(heads: &[i32], head: i32) -> (usize, usize) {
    use std::arch::x86_64::*;
    debug_assert!(heads.len().is_multiple_of(4));
    // SAFETY: every x86-64 processor has SSE2, and the loads, which need no alignment, are of four heads each.
    unsafe {
        let wanted = _mm_set1_epi32(head);
        let (mut below, mut above) = (_mm_setzero_si128(), _mm_setzero_si128());
        for four in heads.as_chunks::<4>().0 {
            let four = _mm_loadu_si128(four.as_ptr().cast());
            // A comparison that holds is -1.
            below = _mm_sub_epi32(below, _mm_cmpgt_epi32(wanted, four));
            above = _mm_sub_epi32(above, _mm_cmpgt_epi32(four, wanted));
        }
        let sum = |four: __m128i| {
            let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
            _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two))) as usize
        };
        (sum(below), heads.len() - sum(above))
    }
}

/// The same for any processor.
#[cfg(any(all(test, not(loom)), not(target_arch = "x86_64")))]
fn one_by_one(heads: &[i32], head: i32) -> (usize, usize) {
    heads
        .iter()
        .fold((0, 0), |(below, upto), here| (below + usize::from(*here < head), upto + usize::from(*here <= head)))
}

#[cfg(all(test, not(loom), target_arch = "x86_64"))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head() -> impl Strategy<Value = i32> {
        prop_oneof![any::<i32>(), -3..3, Just(i32::MIN), Just(i32::MAX)]
    }

    proptest! {
        #[test]
        fn both_ways_of_counting_agree(heads in prop::collection::vec(head(), 0..140), wanted in head()) {
            let mut heads = heads;
            heads.sort_unstable();
            heads.resize(heads.len().next_multiple_of(8), i32::MAX);
            for wanted in heads.iter().copied().chain([wanted]) {
                prop_assert_eq!(four_at_a_time(&heads, wanted), one_by_one(&heads, wanted));
            }
        }
    }
}
