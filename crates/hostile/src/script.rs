//! Edits of sound files, as bytes: any bytes are a script.
//!
//! An edit is six bytes and perhaps some more: what is done; to which file; where, as the number of a piece of 64 bytes
//! that are not all zero (u16) and a place in it, so that a pool, which is nearly all zeros, is hit where it counts; and a
//! number. Missing bytes are zeros. A script has [`EDITS_MAX`] edits at most.

/// How many edits of a script are made.
pub const EDITS_MAX: usize = 12;

const PIECE_BYTES: usize = 64;
/// How many bytes a kind of edit moves, or adds, for each step of its number.
const STEP_BYTES: usize = 4;

/// Bytes to choose by. At their end it goes on with zeros.
#[derive(Debug, Clone)]
pub struct Choices<'d>(&'d [u8]);

impl<'d> Choices<'d> {
    /// The choices in these bytes.
    pub fn new(bytes: &'d [u8]) -> Choices<'d> {
        Choices(bytes)
    }

    /// Whether there are any left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let (byte, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *byte
    }

    /// The next `N` bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    /// The next two or four bytes, as a number below this one.
    pub fn below(&mut self, bound: usize) -> usize {
        let number = if bound <= 1 << 16 {
            u32::from(u16::from_le_bytes(self.bytes()))
        } else {
            u32::from_le_bytes(self.bytes())
        };
        number as usize % bound.max(1)
    }

    fn take(&mut self, count: usize) -> &'d [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Edits these files; what is none any more is empty. False: no edit has changed anything.
pub fn apply(script: &[u8], files: &mut [Vec<u8>]) -> bool {
    let mut choices = Choices::new(script);
    let mut pieces: Vec<Option<Vec<usize>>> = vec![None; files.len()];
    let mut before: Vec<Option<Vec<u8>>> = vec![None; files.len()];
    for _ in 0..EDITS_MAX {
        if choices.is_empty() {
            break;
        }
        let kind = choices.byte();
        let file = usize::from(choices.byte()) % files.len();
        before[file].get_or_insert_with(|| files[file].clone());
        let at = place(&mut choices, &files[file], &mut pieces[file]);
        let number = choices.byte();
        let source = (kind % KINDS == COPY).then(|| {
            let from = usize::from(choices.byte()) % files.len();
            let start = place(&mut choices, &files[from], &mut pieces[from]);
            let end = files[from].len().min(start + length(number));
            files[from][start..end].to_vec()
        });
        edit(&mut files[file], kind, at, number, source, &mut choices);
    }
    before.iter().zip(files).any(|(before, file)| before.as_ref().is_some_and(|before| before != file))
}

const KINDS: u8 = 12;
const COPY: u8 = 7;

fn length(number: u8) -> usize {
    STEP_BYTES * (1 + usize::from(number))
}

fn place(choices: &mut Choices<'_>, file: &[u8], pieces: &mut Option<Vec<usize>>) -> usize {
    let pieces = pieces.get_or_insert_with(|| {
        let is_told = |piece: &(usize, &[u8])| piece.1.iter().any(|&byte| byte != 0);
        file.chunks(PIECE_BYTES).enumerate().filter(is_told).map(|(number, _)| number).collect()
    });
    let piece = choices.below(pieces.len().max(1));
    let within = usize::from(choices.byte()) % PIECE_BYTES;
    let start = pieces.get(piece).map_or(0, |piece| piece * PIECE_BYTES);
    (start + within).min(file.len().saturating_sub(1))
}

fn edit(file: &mut Vec<u8>, kind: u8, at: usize, number: u8, source: Option<Vec<u8>>, choices: &mut Choices<'_>) {
    let overwrite = |file: &mut Vec<u8>, at: usize, bytes: &[u8]| {
        file.iter_mut().skip(at).zip(bytes).for_each(|(byte, &new)| *byte = new);
    };
    let end = file.len().min(at + length(number));
    match kind % KINDS {
        0 => overwrite(file, at, choices.take(1 + usize::from(number) % 16)),
        1 => file.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= number.max(1)),
        2 => {
            let aligned = at - at % 8;
            let length_bytes = file.len() as u64;
            let word = [0, 1, 2, 3, u64::MAX, 1 << 63, length_bytes, length_bytes + 1, 1 << 32, u64::from(u32::MAX)];
            overwrite(file, aligned, &word[usize::from(number) % word.len()].to_le_bytes());
        }
        3 => file[at.min(end)..end].fill(0),
        4 => file.truncate(at),
        5 => drop(file.drain(at.min(end)..end)),
        6 => drop(file.splice(at..at, choices.take(1 + usize::from(number) % 16).to_vec())),
        COPY => overwrite(file, at, &source.unwrap_or_default()),
        8 => {
            // A number of one, two, four or eight bytes, a little larger or smaller.
            let bytes = 1 << (number % 4);
            let mut carry = i64::from(number as i8 >> 2);
            for byte in file.iter_mut().skip(at).take(bytes) {
                let sum = i64::from(*byte) + carry;
                *byte = sum as u8;
                carry = sum >> 8;
            }
        }
        9 => file.resize(file.len() + length(number), 0),
        10 => {
            let value = [1_u32, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX, 64];
            overwrite(file, at - at % 4, &value[usize::from(number) % value.len()].to_le_bytes());
        }
        // Rarely: a file that is empty says little.
        _ if number == 0xff => file.clear(),
        _ => file.iter_mut().skip(at).take(1).for_each(|byte| *byte = number),
    }
}
