//! What the examples that measure share.
#![allow(dead_code)]

/// Keys of 20 bytes in an order that looks random: as many as there are numbers.
pub fn key(number: u64) -> [u8; 20] {
    let mut key = [b'k'; 20];
    key[..16].copy_from_slice(format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).as_bytes());
    key
}

/// What this process has used of processors so far, in seconds.
pub fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
