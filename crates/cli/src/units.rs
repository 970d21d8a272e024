//! Sizes, counts, rates and durations, for people; and sizes as people write them.

use std::time::Duration;

/// A size as an option: `256MiB`, `1G`, `64 KB`, or plain bytes. `K M G T` and `KiB MiB GiB TiB` count in 1,024s,
/// `KB MB GB TB` in 1,000s, whatever the case.
pub fn parse_size(text: &str) -> Result<u64, String> {
    const WANTED: &str = "a size is a number of bytes, or one with a unit: 256MiB, 1G, 500MB";
    let text = text.trim();
    let digits_end = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let scale: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(WANTED.to_string()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale).ok_or_else(|| "a size this large can't be had".to_string());
    }
    // A fraction of a byte makes no sense, of a unit it does: 1.5G.
    match number.parse::<f64>() {
        Ok(fraction) if scale > 1 && fraction.is_finite() && fraction * (scale as f64) < u64::MAX as f64 => {
            Ok((fraction * scale as f64) as u64)
        }
        _ => Err(WANTED.to_string()),
    }
}

/// `1234567` as `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in the largest unit that leaves a number of at least 1: `1.5 GiB`; whole bytes below 1 KiB.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut value = number as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `amount` in a second, given how long it took; 0 for no time at all.
pub fn per_second(amount: u64, elapsed: Duration) -> f64 {
    match elapsed.as_secs_f64() {
        seconds if seconds > 0.0 => amount as f64 / seconds,
        _ => 0.0,
    }
}

/// Megabytes (10⁶ bytes) a second.
pub fn megabytes_per_second(bytes: u64, elapsed: Duration) -> f64 {
    per_second(bytes, elapsed) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("10b", 10),
            ("256MiB", 256 << 20),
            ("256 mib", 256 << 20),
            ("1G", 1 << 30),
            ("1g", 1 << 30),
            ("64K", 64 << 10),
            ("500MB", 500_000_000),
            ("1.5G", 3 << 29),
            ("2TiB", 2 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "MiB", "-1", "1.5", "1X", "1e3", "99999999999G", "1..5G", "0x10", "1 2"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(per_second(10, Duration::ZERO), 0.0);
        assert_eq!(megabytes_per_second(3_000_000, Duration::from_secs(2)), 1.5);
    }
}
