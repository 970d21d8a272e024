//! What is asked of a run: the numbers that db_bench and YCSB take, under db_bench's names for flags.

use std::time::Duration;

use crate::distributions::{Distribution, ZIPF};
use crate::error::{Error, Result};

/// How much of what is done. The defaults are db_bench's, YCSB's for its workloads.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Keys are those of the numbers below this; each thread writes as many (db_bench), or all together load so many (YCSB).
    pub num: u64,
    /// Writes of each thread; `None`: [`Settings::num`].
    pub writes: Option<u64>,
    /// Reads and seeks of each thread; `None`: [`Settings::num`].
    pub reads: Option<u64>,
    /// Operations of a YCSB workload, of all threads together; `None`: [`Settings::num`].
    pub operations: Option<u64>,
    /// Random work goes on for so long, however much that is; sequential work for at most so long.
    pub duration: Option<Duration>,
    /// What does not begin with a new store goes on for at most so long.
    pub time_limit: Option<Duration>,
    /// A store is at rest when it has done nothing for so long.
    pub quiet: Duration,
    /// So often is looked at how much has been done; `None`: only at the end.
    pub report_interval: Option<Duration>,
    /// Bytes of db_bench's keys.
    pub key_bytes: usize,
    /// Bytes of db_bench's values.
    pub value_bytes: usize,
    /// Whether values that were read are looked at, a byte of each page; db_bench does not.
    pub look_at_values: bool,
    /// Bytes of YCSB's records (YCSB's are ten fields of 100).
    pub record_bytes: usize,
    /// What compressors shall shrink values to.
    pub compression_ratio: f64,
    /// Threads.
    pub threads: u64,
    /// Puts that are written at once.
    pub batch_size: u64,
    /// Entries that are read after each seek.
    pub seek_nexts: u64,
    /// Of a hundred operations of readrandomwriterandom so many are reads.
    pub read_percent: u64,
    /// Records that YCSB's longest range has.
    pub scan_records_max: u64,
    /// How YCSB chooses records; `None`: as each workload has it.
    pub request_distribution: Option<Distribution>,
    /// YCSB's θ.
    pub zipf: f64,
    /// Whether every write waits for the disk.
    pub sync: bool,
    /// Whether the store that is there is measured, and kept.
    pub use_existing: bool,
    /// Another seed, other random numbers; the same seed, the same.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            num: 1_000_000,
            writes: None,
            reads: None,
            operations: None,
            duration: None,
            time_limit: None,
            quiet: Duration::from_secs(1),
            report_interval: None,
            key_bytes: 16,
            value_bytes: 100,
            look_at_values: true,
            record_bytes: 1000,
            compression_ratio: 0.5,
            threads: 1,
            batch_size: 1,
            seek_nexts: 0,
            read_percent: 90,
            scan_records_max: 100,
            request_distribution: None,
            zipf: ZIPF,
            sync: false,
            use_existing: false,
            seed: 301,
        }
    }
}

impl Settings {
    /// Whether this can be done.
    pub fn check(&self) -> Result<()> {
        let digits = self.num.saturating_sub(1).checked_ilog10().unwrap_or(0) as usize + 1;
        let wrong = |what: String| Err(Error::Settings(what));
        let in_range = |name: &str, number: u64, from: u64, to: u64| match number {
            _ if (from..=to).contains(&number) => Ok(()),
            _ => wrong(format!("{name} is {number}; give a number from {from} to {to}")),
        };
        in_range("--num", self.num, 1, 1 << 48)?;
        // A missing key is a byte longer.
        in_range("--key_size", self.key_bytes as u64, digits as u64, slmdb::MAXIMUM_KEY_BYTES as u64 - 1)?;
        in_range("--value_size", self.value_bytes as u64, 0, slmdb::MAXIMUM_VALUE_BYTES as u64)?;
        in_range("--record_size", self.record_bytes as u64, 0, slmdb::MAXIMUM_VALUE_BYTES as u64)?;
        in_range("--threads", self.threads, 1, 1024)?;
        in_range("--batch_size", self.batch_size, 1, 1_000_000)?;
        in_range("--readwritepercent", self.read_percent, 0, 100)?;
        in_range("--scan_length", self.scan_records_max, 1, 1 << 48)?;
        if !(self.zipf > 0.0 && self.zipf < 1.0) {
            return wrong(format!("--zipf is {}; give a number between 0 and 1, like {ZIPF}", self.zipf));
        }
        if !(self.compression_ratio > 0.0 && self.compression_ratio <= 1.0) {
            return wrong(format!("--compression_ratio is {}; give one above 0, up to 1", self.compression_ratio));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_done_is_said_by_the_flag_s_name() {
        assert!(Settings::default().check().is_ok());
        type Change = fn(&mut Settings);
        let wrong: [(&str, Change); 11] = [
            ("--num", |settings| settings.num = 0),
            ("--key_size", |settings| settings.key_bytes = 5),
            ("--key_size", |settings| settings.key_bytes = 65_535),
            ("--value_size", |settings| settings.value_bytes = 1 << 30),
            ("--record_size", |settings| settings.record_bytes = 1 << 30),
            ("--threads", |settings| settings.threads = 0),
            ("--batch_size", |settings| settings.batch_size = 0),
            ("--readwritepercent", |settings| settings.read_percent = 101),
            ("--scan_length", |settings| settings.scan_records_max = 0),
            ("--zipf", |settings| settings.zipf = f64::NAN),
            ("--compression_ratio", |settings| settings.compression_ratio = 0.0),
        ];
        for (name, change) in wrong {
            let mut settings = Settings::default();
            change(&mut settings);
            assert!(matches!(settings.check(), Err(Error::Settings(text)) if text.starts_with(name)), "{name}");
        }
        let just = Settings { num: 1_000_000, key_bytes: 6, ..Settings::default() };
        assert!(just.check().is_ok());
    }
}
