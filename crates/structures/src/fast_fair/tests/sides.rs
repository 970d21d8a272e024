//! Where a key is as seen from a node: the quick way and the careful one say the same.

use proptest::prelude::*;
use slmdb_order::KeyOrder;
use slmdb_sync::mapped::AtomicU64;

use crate::fast_fair::fences::{FENCE_BYTES_INLINE, Fences, Shape, Side, Target};
use crate::fast_fair::node::{Header, Node};

/// What both ways say of a key in a node with these fences, which must be short.
fn sides(low: Option<&[u8]>, high: Option<&[u8]>, key: &[u8]) -> (Option<u64>, Side) {
    let order = KeyOrder::default();
    let shape = Shape::new(0, low, high, &order);
    let mut inline = [0; FENCE_BYTES_INLINE];
    let low = low.unwrap_or_default();
    let high_rest = high.map_or(&[][..], |high| &high[usize::from(shape.prefix)..]);
    inline[..low.len()].copy_from_slice(low);
    inline[low.len()..low.len() + high_rest.len()].copy_from_slice(high_rest);
    let word = |number: usize| u64::from_ne_bytes(*inline[8 * number..].first_chunk().unwrap());
    let [lock, counter, forward, sibling] = std::array::from_fn(|_| AtomicU64::new(0));
    let fences = [0, 1, 2].map(|number| AtomicU64::new(word(number)));
    let header = Header { lock, counter, forward, sibling, shape: AtomicU64::new(shape.word()), fences };
    let quick = Node { offset: 0, header: &header, slots: &[] }.clearly_inside(key);
    (quick, Fences { shape, inline, outside: &[] }.side(&Target::At(key), &order))
}

/// Keys that agree in many bytes.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let tail = proptest::collection::vec(0..3_u8, 0..4);
    (0..16_usize, tail).prop_map(|(shared, tail)| [&b"0123456789abcdef"[..shared], &tail].concat())
}

proptest! {
    #[test]
    fn a_key_that_is_clearly_inside_is_inside(fences in (key(), key()), open in 0..4_u8, key in key()) {
        let (low, high) = if fences.0 <= fences.1 { fences } else { (fences.1, fences.0) };
        prop_assume!(low < high);
        let low = (open & 1 == 0).then_some(&low[..]);
        let high = (open & 2 == 0).then_some(&high[..]);
        let prefix = Shape::new(0, low, high, &KeyOrder::default());
        prop_assume!(prefix.fence_bytes() <= FENCE_BYTES_INLINE);
        if let (Some(head), side) = sides(low, high, &key) {
            prop_assert_eq!(side, Side::Inside(head));
        }
    }
}

#[test]
fn a_long_common_prefix_is_no_reason_to_be_careful() {
    for prefix in ["", "user", "user:mail", "user:address:city:x"] {
        let [low, high] = ["aa", "cc"].map(|rest| format!("{prefix}{rest}"));
        let sides_of =
            |rest: &str| sides(Some(low.as_bytes()), Some(high.as_bytes()), format!("{prefix}{rest}").as_bytes());
        let (quick, side) = sides_of("bb");
        assert_eq!(Side::Inside(quick.unwrap()), side, "{prefix}");
        for outside in ["a", "cd", ""] {
            let (quick, side) = sides_of(outside);
            assert!(quick.is_none() && !matches!(side, Side::Inside(_)), "{prefix}{outside}");
        }
    }
}
