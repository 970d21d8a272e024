use super::super::chunks::SystemMemory;
use super::*;

#[test]
fn pieces_have_room_and_their_classes_are_in_order() {
    for bytes in 1..=3 * PIECE_BYTES_MAX {
        let piece = piece_bytes(bytes);
        assert!(piece >= bytes && piece.is_multiple_of(FINE_BYTES));
        if piece <= PIECE_BYTES_MAX {
            assert_eq!(class_bytes(class(piece)), piece);
        }
    }
}

#[test]
fn all_memory_goes_back_and_pieces_do_not_overlap() {
    let mut slab = Slab::new(Arc::new(SystemMemory));
    let mut taken = Vec::new();
    for number in 0..60_000_usize {
        let bytes = 1 + number * 7919 % 5000 + if number % 1000 == 0 { 40_000 } else { 0 };
        let piece = slab.take(bytes).unwrap();
        // SAFETY: the piece has so many bytes.
        unsafe { piece.write_bytes(number as u8, bytes) };
        taken.push((piece, bytes, number as u8));
        if number % 3 == 0 {
            let (piece, bytes, fill) = taken.swap_remove(number * 31 % taken.len());
            // SAFETY: as it was written, and not given back before.
            unsafe {
                assert!((0..bytes).all(|at| piece.add(at).read() == fill), "a piece overlaps another");
                slab.give_back(piece, bytes);
            }
        }
    }
    let live_bytes: usize = taken.iter().map(|(_, bytes, _)| piece_bytes(*bytes)).sum();
    assert_eq!(slab.live_bytes(), live_bytes);
    assert!(slab.chunk_bytes() < live_bytes * 11 / 10, "{slab:?}");
    for (piece, bytes, _) in taken {
        // SAFETY: it was not given back before.
        unsafe { slab.give_back(piece, bytes) };
    }
    assert_eq!((slab.chunk_bytes(), slab.live_bytes()), (0, 0));
}
