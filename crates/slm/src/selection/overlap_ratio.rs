//! Which files overlap most by key ranges (paper, section 3.3).
//!
//! For each file the overlap ratios with all others are added up. The file with the largest sum is merged with the
//! files that it overlaps, those with the largest ratio first, as many as may be merged at once. With very many files,
//! each is compared only with some hundred that begin near it, so that choosing stays cheap.

use slmdb_manifest::FileRecord;
use slmdb_order::KeyOrder;

use crate::selection::distances::Distances;

/// Up to this many files are all compared with each other.
const COMPARED_MAX: usize = 512;

/// The files to merge, as positions of at least two and at most `files_max`. `None`: no two of them overlap.
pub(crate) fn most_overlapping<'f>(
    order: &KeyOrder,
    files: impl Iterator<Item = &'f FileRecord>,
    files_max: usize,
) -> Option<Vec<usize>> {
    if files_max < 2 {
        return None;
    }
    let ranges: Vec<_> = files.map(|file| (file.smallest_key.as_slice(), file.largest_key.as_slice())).collect();
    let distances = Distances::new(order, &ranges);
    let mut by_key: Vec<usize> = (0..ranges.len()).collect();
    if ranges.len() > COMPARED_MAX {
        by_key.sort_by(|&a, &b| distances.smallest(a).total_cmp(&distances.smallest(b)));
    }
    let of_parts = by_key.chunks(COMPARED_MAX).filter_map(|part| largest_sum(&distances, part));
    let (best, _, part) = of_parts.max_by(|(_, a, _), (_, b, _)| a.total_cmp(b))?;
    let others = part.iter().filter(|&&other| other != best);
    let mut others: Vec<(usize, f64)> =
        others.map(|&other| (other, distances.overlap_ratio(best, other))).filter(|(_, ratio)| *ratio > 0.0).collect();
    others.sort_by(|a, b| b.1.total_cmp(&a.1));
    others.truncate(files_max - 1);
    Some(std::iter::once(best).chain(others.into_iter().map(|(other, _)| other)).collect())
}

/// The file with the largest sum of overlap ratios, that sum, and the part. `None`: no two files of the part overlap.
fn largest_sum<'p>(distances: &Distances<'_>, part: &'p [usize]) -> Option<(usize, f64, &'p [usize])> {
    let mut sums = vec![0.0; part.len()];
    for s in 0..part.len() {
        for t in 0..s {
            let ratio = distances.overlap_ratio(part[s], part[t]);
            sums[s] += ratio;
            sums[t] += ratio;
        }
    }
    // Of equal ones, the first.
    let (best, sum) = sums.iter().enumerate().rev().max_by(|a, b| a.1.total_cmp(b.1))?;
    (*sum > 0.0).then_some((part[best], *sum, part))
}
