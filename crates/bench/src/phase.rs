//! [`Phase`]: what was measured, as db_bench's lines and as JSON.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::latency::Latency;
use crate::meter::{Counts, Kind};
use crate::over_time::Moment;
use crate::store::Numbers;
use crate::system::{DeviceTraffic, FileCalls, Resident};

/// db_bench's megabyte.
const MEGABYTE: f64 = 1_048_576.0;

/// The percentiles that are told: in lines, and by what names in JSON.
const PERCENTILES: [(f64, &str); 6] =
    [(50.0, "p50_ns"), (90.0, "p90_ns"), (95.0, "p95_ns"), (99.0, "p99_ns"), (99.9, "p99_9_ns"), (99.99, "p99_99_ns")];

/// One benchmark, measured. What can't be had is `None`, and absent in what is printed.
#[derive(Debug)]
pub struct Phase {
    /// Its name.
    pub benchmark: &'static str,
    /// The store's.
    pub store: String,
    /// Threads whose operations count.
    pub threads: u64,
    /// What the store counts: during the phase, and what it is now.
    pub numbers: Numbers,
    /// What the process asked of files during the phase.
    pub calls: Option<FileCalls>,
    /// The block device's traffic during the phase and the sync after it.
    pub device: Option<DeviceTraffic>,
    /// What the store's directory takes on disk.
    pub space_bytes: Option<u64>,
    /// What of the process is in memory at the end.
    pub resident: Resident,
    /// How it went from one moment to the next, if that was asked for.
    pub over_time: Vec<Moment>,
    /// Processor time of all threads, the store's own included.
    pub processor: Duration,
    pub(crate) counts: Counts,
    /// Of threads that worked beside those that count.
    pub(crate) beside: Counts,
    /// What `--num` was.
    pub(crate) num: u64,
}

impl Phase {
    /// Operations that were done.
    pub fn operations(&self) -> u64 {
        self.counts.operations
    }

    /// How long it took, from when the first thread began to when the last had ended.
    pub fn elapsed(&self) -> Duration {
        self.counts.elapsed()
    }

    /// Operations of all threads in a second.
    pub fn operations_per_second(&self) -> f64 {
        per_second(self.counts.operations as f64, self.elapsed())
    }

    /// Keys that were asked for, and how many of them were there, if any were asked for.
    pub fn found(&self) -> Option<(u64, u64)> {
        (self.counts.asked > 0).then_some((self.counts.found, self.counts.asked))
    }

    /// Bytes of keys and values that were put, by whichever thread.
    pub fn bytes_put(&self) -> u64 {
        self.counts.bytes_put + self.beside.bytes_put
    }

    /// All latencies together.
    pub fn latency(&self) -> Latency {
        let mut all = Latency::default();
        self.latencies().for_each(|(_, latency)| all.add_all(latency));
        all
    }

    /// Latencies by kind of operation.
    pub fn latencies(&self) -> impl Iterator<Item = (Kind, &Latency)> {
        let pairs = Kind::ALL.into_iter().zip(&self.counts.latencies);
        pairs.filter_map(|(kind, latency)| Some((kind, latency.as_deref()?)))
    }

    /// Bytes written to the device for each byte put.
    pub fn device_bytes_per_byte_put(&self) -> Option<f64> {
        self.per_byte_put(self.device?.written_bytes)
    }

    /// Bytes that calls wrote to files for each byte put.
    pub fn asked_bytes_per_byte_put(&self) -> Option<f64> {
        self.per_byte_put(self.calls?.written_bytes)
    }

    fn per_byte_put(&self, bytes: u64) -> Option<f64> {
        (self.bytes_put() > 0).then(|| bytes as f64 / self.bytes_put() as f64)
    }

    /// db_bench's result line.
    pub fn line(&self) -> String {
        let operations = self.counts.operations.max(1) as f64;
        let seconds = self.elapsed().as_secs_f64();
        // As there: the time of an operation is a thread's, the rate that of all.
        let micros = seconds * 1e6 * self.threads as f64 / operations;
        let rate = self.operations_per_second();
        let mut line = format!("{:<12} : {micros:>11.3} micros/op {rate:.0} ops/sec;", self.benchmark);
        if self.counts.bytes > 0 {
            line += &format!(" {:>6.1} MB/s", per_second(self.counts.bytes as f64 / MEGABYTE, self.elapsed()));
        }
        match self.found() {
            Some((found, asked)) => line += &format!(" ({found} of {asked} found)"),
            None if self.operations() != self.num => line += &format!(" ({} ops)", self.operations()),
            None => {}
        }
        if self.beside.operations > 0 {
            line += &format!(" ({} writes beside)", self.beside.operations);
        }
        line
    }

    /// What was measured beside the rate, a few lines that begin with spaces.
    pub fn lines_beside(&self) -> Vec<String> {
        let latency = self.latency();
        let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        let shown = [(50.0, "p50"), (99.0, "p99"), (99.9, "p99.9"), (99.99, "p99.99")]
            .map(|(percent, name)| format!("{name} {}", us(latency.percentile_ns(percent))));
        let mut lines = vec![format!(
            "  latency, us   : {}, longest {}; processor {:.2} s in {:.2} s",
            shown.join(", "),
            us(latency.longest_ns()),
            self.processor.as_secs_f64(),
            self.elapsed().as_secs_f64()
        )];
        let mut add = |title: &str, parts: Vec<(&str, Option<String>)>| {
            let there = parts.into_iter().filter_map(|(name, part)| Some(format!("{name} {}", part?)));
            let there: Vec<String> = there.collect();
            if !there.is_empty() {
                lines.push(format!("  {title:<13} : {}", there.join(", ")));
            }
        };
        let megabytes = |bytes: Option<u64>| bytes.map(|bytes| format!("{:.1}", bytes as f64 / MEGABYTE));
        let numbers = &self.numbers;
        add(
            "written, MB",
            vec![
                ("put", megabytes((self.bytes_put() > 0).then_some(self.bytes_put()))),
                ("asked", megabytes(self.calls.map(|calls| calls.written_bytes))),
                ("device", megabytes(self.device.map(|device| device.written_bytes))),
                ("device per byte put", self.device_bytes_per_byte_put().map(|ratio| format!("{ratio:.2}"))),
                ("asked to read", megabytes(self.calls.map(|calls| calls.read_bytes))),
                ("device read", megabytes(self.device.map(|device| device.read_bytes))),
            ],
        );
        add(
            "fast tier, MB",
            vec![
                ("asked", megabytes(numbers.fast_tier_bytes_asked)),
                ("flushed", megabytes(numbers.fast_tier_bytes_flushed)),
                ("media", megabytes(numbers.fast_tier_media_bytes)),
                ("taken", megabytes(numbers.fast_tier_bytes)),
                ("index bytes/key", numbers.fast_tier_index_bytes_per_key.map(|bytes| format!("{bytes:.1}"))),
            ],
        );
        add(
            "taken, MB",
            vec![
                ("disk", megabytes(self.space_bytes)),
                ("resident", megabytes(self.resident.all_bytes)),
                ("anonymous", megabytes(self.resident.anonymous_bytes)),
                ("the store's account", megabytes(numbers.memory_bytes)),
            ],
        );
        lines
    }

    /// db_bench's report of `--histogram`, for each kind of operation.
    pub fn histograms(&self) -> String {
        let texts =
            self.latencies().map(|(kind, latency)| format!("Microseconds per {}:\n{}\n", kind.name(), latency.text()));
        texts.collect()
    }

    /// Everything, as one object.
    pub fn json(&self) -> Value {
        let seconds = self.elapsed().as_secs_f64();
        let numbers = &self.numbers;
        let found = self.found();
        let mut object = json!({
            "benchmark": self.benchmark,
            "store": self.store,
            "threads": self.threads,
            "operations": self.counts.operations,
            "seconds": seconds,
            "ops_per_second": self.operations_per_second(),
            "bytes": self.counts.bytes,
            "bytes_put": self.bytes_put(),
            "cpu_seconds": self.processor.as_secs_f64(),
            "latency": json_of_latency(&self.latency()),
        });
        let kinds = self.latencies().map(|(kind, latency)| (kind.name().to_string(), json_of_latency(latency)));
        object["latency_by_kind"] = Value::Object(kinds.collect::<Map<String, Value>>());
        let beside = self.beside.operations;
        for (name, number) in [
            ("asked", found.map(|(_, asked)| asked)),
            ("found", found.map(|(found, _)| found)),
            ("operations_beside", (beside > 0).then_some(beside)),
            ("file_read_bytes_asked", self.calls.map(|calls| calls.read_bytes)),
            ("file_written_bytes_asked", self.calls.map(|calls| calls.written_bytes)),
            ("device_read_bytes", self.device.map(|device| device.read_bytes)),
            ("device_written_bytes", self.device.map(|device| device.written_bytes)),
            ("file_bytes_written", numbers.file_bytes_written),
            ("compaction_ns", numbers.compaction_ns),
            ("level_zero_bytes", numbers.level_zero_bytes),
            ("fast_tier_bytes_asked", numbers.fast_tier_bytes_asked),
            ("fast_tier_bytes_flushed", numbers.fast_tier_bytes_flushed),
            ("fast_tier_media_bytes", numbers.fast_tier_media_bytes),
            ("fast_tier_bytes", numbers.fast_tier_bytes),
            ("space_bytes", self.space_bytes),
            ("resident_bytes", self.resident.all_bytes),
            ("resident_anonymous_bytes", self.resident.anonymous_bytes),
            ("memory_bytes", numbers.memory_bytes),
        ] {
            if let Some(number) = number {
                object[name] = number.into();
            }
        }
        for (name, number) in [
            ("file_written_bytes_asked_per_byte_put", self.asked_bytes_per_byte_put()),
            ("device_written_bytes_per_byte_put", self.device_bytes_per_byte_put()),
            ("fast_tier_index_bytes_per_key", numbers.fast_tier_index_bytes_per_key),
        ] {
            if let Some(number) = number {
                object[name] = number.into();
            }
        }
        if !self.over_time.is_empty() {
            object["over_time"] = crate::over_time::json(&self.over_time);
        }
        object
    }
}

fn per_second(amount: f64, elapsed: Duration) -> f64 {
    match elapsed.as_secs_f64() {
        seconds if seconds > 0.0 => amount / seconds,
        _ => 0.0,
    }
}

fn json_of_latency(latency: &Latency) -> Value {
    let mut object = json!({ "count": latency.count(), "mean_ns": latency.mean_ns(), "min_ns": latency.shortest_ns() });
    for (percent, name) in PERCENTILES {
        object[name] = latency.percentile_ns(percent).into();
    }
    object["max_ns"] = latency.longest_ns().into();
    object["over_1_ms_ns"] = latency.long_ns().into();
    object
}
