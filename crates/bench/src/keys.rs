//! Keys as the two benches have them.
//!
//! db_bench's (LevelDB's) are decimal numbers with zeros in front, 16 bytes by default, so that their order is that of the
//! numbers. YCSB's are `user` and the decimal hash of the record's number, so that records loaded in order come in random order.

use crate::distributions::hash;

/// What the missing keys of LevelDB's db_bench end in up to 1.22 (later ones lack a digit): they are between keys that are there.
const MISSING_END: u8 = b'.';

/// Space for one key at a time.
#[derive(Debug, Clone)]
pub struct KeyBuffer {
    /// The key, and one byte more for a missing one.
    bytes: Vec<u8>,
    key_bytes: usize,
    user: Vec<u8>,
}

impl KeyBuffer {
    /// For db_bench's keys of so many bytes.
    pub fn new(key_bytes: usize) -> KeyBuffer {
        let mut bytes = vec![b'0'; key_bytes];
        bytes.push(MISSING_END);
        KeyBuffer { bytes, key_bytes, user: b"user".to_vec() }
    }

    /// db_bench's key of a number. (Of a number with more digits than there is room for, the last ones.)
    pub fn key(&mut self, number: u64) -> &[u8] {
        self.set(number);
        &self.bytes[..self.key_bytes]
    }

    /// A key that db_bench never writes, after that of the number and before the next.
    pub fn missing(&mut self, number: u64) -> &[u8] {
        self.set(number);
        &self.bytes
    }

    fn set(&mut self, number: u64) {
        write_digits(&mut self.bytes[..self.key_bytes], number);
    }

    /// YCSB's key of a record.
    pub fn user(&mut self, record: u64) -> &[u8] {
        let hash = hash(record);
        let digits = hash.checked_ilog10().unwrap_or(0) as usize + 1;
        self.user.resize(b"user".len() + digits, b'0');
        write_digits(&mut self.user[b"user".len()..], hash);
        &self.user
    }
}

/// Fills `space` with the decimal digits of a number, zeros in front.
fn write_digits(space: &mut [u8], mut number: u64) {
    let mut zeros = space.len();
    for digit in space.iter_mut().rev() {
        if number == 0 {
            break;
        }
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        zeros -= 1;
    }
    space[..zeros].fill(b'0');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_db_bench() {
        let mut keys = KeyBuffer::new(16);
        assert_eq!(keys.key(42), b"0000000000000042");
        assert_eq!(keys.key(7), b"0000000000000007");
        assert_eq!(keys.key(9_999_999_999_999_999), b"9999999999999999");
        assert_eq!(keys.missing(42), b"0000000000000042.");
        assert_eq!(KeyBuffer::new(20).key(123), b"00000000000000000123");
        assert_eq!(KeyBuffer::new(4).key(123), b"0123");
        assert_eq!(KeyBuffer::new(5).key(12_345), b"12345");
        assert_eq!(KeyBuffer::new(1).key(7), b"7");
        let missing = keys.missing(42).to_vec();
        assert!(keys.key(42) < missing.as_slice() && missing.as_slice() < keys.key(43));
    }

    #[test]
    fn keys_of_ycsb() {
        let mut keys = KeyBuffer::new(16);
        assert_eq!(keys.user(0), b"user6284781860667377211");
        assert_eq!(keys.user(1), format!("user{}", hash(1)).as_bytes());
        let longest = (0..1000).map(|record| keys.user(record).len()).max();
        assert_eq!(longest, Some(23));
    }
}
