//! Asking the processor for memory ahead of its use.

/// Asks the processor to fetch a range into its cache. Only a hint: any address will do.
#[inline]
pub(crate) fn prefetch_range(start: *const u8, length_bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..length_bytes).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults and changes nothing but caches.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, length_bytes);
}
