//! The image: what is written is read again, by one reader or by several; damaged bytes give an error and nothing worse.

use std::path::Path;

use slmdb_env::{ErrorKind, Result};
use slmdb_structures::memory_tree::{
    Decision, IMAGE_PAGE_BYTES, ImageReader, ImageSize, MAXIMUM_KEY_BYTES, MemoryTree, Settings,
};
use slmdb_sync::epoch;

use super::{Found, Model, check, found, tiny, tree};
use crate::fast_fair::support::Random;

const SEED: u32 = 7;

fn image(tree: &MemoryTree) -> (Vec<u8>, ImageSize) {
    let mut bytes = Vec::new();
    let size = tree
        .write_image(SEED, |page| {
            bytes.extend_from_slice(page);
            Ok(())
        })
        .unwrap();
    assert_eq!(bytes.len() as u64, size.pages * IMAGE_PAGE_BYTES as u64);
    (bytes, size)
}

/// Reads an image by so many readers.
fn load(tree: &MemoryTree, bytes: &[u8], readers: usize) -> Result<u64> {
    let pages: Vec<&[u8]> = bytes.chunks(IMAGE_PAGE_BYTES).collect();
    let each = pages.len().div_ceil(readers).max(1);
    let (mut parts, mut keys) = (Vec::new(), 0);
    for first in (0..pages.len()).step_by(each) {
        let mut reader = ImageReader::new(tree, SEED, first as u64, Path::new("image"));
        for (number, page) in pages[first..].iter().enumerate() {
            if number >= each && !reader.needs_next_page() {
                break;
            }
            // File number n has slot n - 1.
            reader.add_page(page, |file| (1..=4).contains(&file).then(|| file - 1))?;
        }
        let (part, keys_of_part) = reader.finish()?;
        parts.push(part);
        keys += keys_of_part;
    }
    tree.finish_bulk_load(parts)?;
    Ok(keys)
}

/// Keys of many lengths, some as long as they may be.
fn model(keys: u64) -> Model {
    let mut random = Random::new(5);
    let mut model = Model::new();
    for number in 0..keys {
        let length = match number % 400 {
            7 => MAXIMUM_KEY_BYTES - (number / 400) as usize % 50,
            8 => 30_000,
            _ => random.below(60),
        };
        let mut key = vec![b'k'; length];
        key.iter_mut().skip(4).take(9).for_each(|byte| *byte = random.next() as u8);
        model.insert(key, found(random.next(), random.next() % 3 * number));
    }
    model
}

fn filled(model: &Model, settings: Settings) -> MemoryTree {
    let tree = tree(settings);
    let (keys, all): (Vec<&Vec<u8>>, Vec<&Found>) = model.iter().unzip();
    tree.update_sorted(&keys, |index, _| Ok(Decision::Put(*all[index])), |_, _| {}).unwrap();
    tree
}

#[test]
fn what_is_written_is_read_again() {
    for keys in [0, 1, 50, 5000] {
        let model = model(keys);
        let (bytes, size) = image(&filled(&model, Settings::default()));
        assert_eq!(size.keys, model.len() as u64);
        for readers in [1, 2, 3, 7, 100] {
            let read = tree(tiny());
            assert_eq!(load(&read, &bytes, readers).unwrap(), size.keys);
            check(&read, &model, &epoch::pin());
        }
    }
}

fn mend(bytes: &mut [u8]) {
    for page in bytes.chunks_mut(IMAGE_PAGE_BYTES).filter(|page| page.len() == IMAGE_PAGE_BYTES) {
        let sum = slmdb_checksum::crc32c_append(SEED, &page[4..]);
        page[..4].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Loads bytes that are damaged, and whatever comes of it must hold together.
fn load_damaged(bytes: &[u8]) -> Option<MemoryTree> {
    let tree = tree(Settings::default());
    match load(&tree, bytes, 1) {
        Ok(_) => {
            assert!(tree.verify(&epoch::pin()).is_empty());
            Some(tree)
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert_eq!(tree.count(&epoch::pin()), 0);
            None
        }
    }
}

#[test]
fn damaged_pages_are_refused_and_mended_ones_are_harmless() {
    let whole = model(600);
    let (bytes, _) = image(&filled(&whole, Settings::default()));
    assert!(load_damaged(&bytes).is_some());
    let mut random = Random::new(8);
    let (mut refused, mut taken) = (0, 0);
    for round in 0..1500 {
        let mut damaged = bytes.clone();
        // Most of them where headers are.
        let page = random.below(bytes.len() / IMAGE_PAGE_BYTES) * IMAGE_PAGE_BYTES;
        let at = page + random.below(if round % 3 == 0 { IMAGE_PAGE_BYTES } else { 120 });
        match round % 4 {
            0 => damaged[at] ^= 1 << (round % 8),
            1 => damaged[at] = random.next() as u8,
            2 => damaged[at..bytes.len().min(at + 8)].fill(if round % 8 == 2 { 0xff } else { 0 }),
            _ => damaged[at..bytes.len().min(at + 4)].iter_mut().for_each(|byte| *byte = random.next() as u8),
        }
        if damaged != bytes {
            assert!(load_damaged(&damaged).is_none(), "a checksum that does not fit at {at}");
        }
        mend(&mut damaged);
        match load_damaged(&damaged) {
            Some(_) => taken += 1,
            None => refused += 1,
        }
    }
    println!("mended: {refused} refused, {taken} taken");
    assert!(refused > 200 && taken > 200);
    // Cut short, out of order, twice, and of something else.
    let page = |number: usize| &bytes[number * IMAGE_PAGE_BYTES..][..IMAGE_PAGE_BYTES];
    assert!(load_damaged(&bytes[..bytes.len() - 1]).is_none());
    assert!(load_damaged(&[page(1), page(0)].concat()).is_none());
    assert!(load_damaged(&[page(0), page(0)].concat()).is_none());
    let mut twice = [page(0), page(0)].concat();
    twice[IMAGE_PAGE_BYTES + 4] = 1;
    mend(&mut twice);
    assert!(load_damaged(&twice).is_none(), "keys that don't ascend");
    let other = tree(tiny());
    let mut reader = ImageReader::new(&other, SEED + 1, 0, Path::new("image"));
    assert_eq!(reader.add_page(page(0), Some).unwrap_err().kind(), ErrorKind::Corruption);
    assert!(load_damaged(&vec![0; IMAGE_PAGE_BYTES]).is_none());
}
