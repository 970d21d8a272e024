//! Mutations for where libFuzzer is not: few, plain, and the same on every machine.

use slmdb_testkit::Random;

/// Changes an input in one to four places.
pub fn mutate(input: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(input.len() as u64 + 1) as usize;
        match random.below(6) {
            0 => input.insert(at, random.number() as u8),
            1 => input.truncate(at.max(1)),
            2 => {
                let end = input.len().min(at + 1 + random.below(8) as usize);
                input.drain(at..end);
            }
            3 => {
                let from = random.below(input.len() as u64 + 1) as usize;
                let end = input.len().min(from + random.below(32) as usize);
                let copied = input[from..end].to_vec();
                input.splice(at..at, copied);
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = match random.below(4) {
                        0 => *byte ^ 1 << random.below(8),
                        1 => [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
                        _ => random.number() as u8,
                    };
                }
            }
        }
    }
}
