/// How many bytes two keys have in common at their beginnings.
#[inline]
pub fn common_prefix_bytes(left: &[u8], right: &[u8]) -> usize {
    let (words, others) = (left.as_chunks::<8>().0, right.as_chunks::<8>().0);
    for (index, (word, other)) in words.iter().zip(others).enumerate() {
        let differing = u64::from_le_bytes(*word) ^ u64::from_le_bytes(*other);
        if differing != 0 {
            return 8 * index + differing.trailing_zeros() as usize / 8;
        }
    }
    let same = 8 * words.len().min(others.len());
    same + left[same..].iter().zip(&right[same..]).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_prefixes() {
        let long = [7; 100];
        for differs_at in 0..100 {
            let mut other = long;
            other[differs_at] = 8;
            assert_eq!(common_prefix_bytes(&long, &other), differs_at);
            assert_eq!(common_prefix_bytes(&long, &long[..differs_at]), differs_at);
            assert_eq!(common_prefix_bytes(&long[..differs_at], &long), differs_at);
        }
        assert_eq!(common_prefix_bytes(&long, &long), 100);
    }
}
