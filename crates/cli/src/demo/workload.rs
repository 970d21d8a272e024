//! Keys and values that can be told from their number alone, so that everything read can be compared.

/// Length of every key, in bytes.
pub const KEY_BYTES: usize = 20;
/// Length of every value, in bytes.
pub const VALUE_BYTES: usize = 400;

/// A number from 0 on, scattered over all 64-bit numbers; no two alike.
pub fn scattered(number: u64) -> u64 {
    // The finalizer of SplitMix64: each step can be undone.
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The key of a number: keys of successive numbers are in no order, and sort as [`scattered`] does.
pub fn key(number: u64) -> String {
    format!("key-{:016x}", scattered(number))
}

/// Puts the value of a number into `value`. It is noise: compression gains nothing, so bytes written can be compared
/// with bytes put.
pub fn fill_value(value: &mut Vec<u8>, number: u64) {
    value.clear();
    let mut state = scattered(number ^ 0x5bd1_e995_0000_0001) | 1;
    while value.len() < VALUE_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        value.extend_from_slice(&state.to_le_bytes());
    }
    value.truncate(VALUE_BYTES);
}

/// The numbers below `count` in another order than from 0 on.
pub fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    // A prime larger than any count asked for has no factor in common with it, so no number comes twice.
    const STRIDE: u64 = 2_654_435_761;
    (0..count).map(move |step| (step * STRIDE + 7) % count)
}

/// The numbers below `count` in the order of their keys.
pub fn in_key_order(count: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    numbers.sort_unstable_by_key(|&number| scattered(number));
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_and_values_are_what_is_said_of_them() {
        let mut value = Vec::new();
        let mut values = BTreeSet::new();
        for number in 0..1000 {
            assert_eq!(key(number).len(), KEY_BYTES);
            fill_value(&mut value, number);
            assert_eq!(value.len(), VALUE_BYTES);
            assert!(values.insert(value.clone()));
        }
    }

    #[test]
    fn orders_hold_every_number_once() {
        for count in [1, 2, 100, 1001] {
            assert_eq!(shuffled(count).collect::<BTreeSet<_>>().len() as u64, count);
            let ordered = in_key_order(count);
            assert!(ordered.windows(2).all(|pair| key(pair[0]) < key(pair[1])));
        }
    }
}
