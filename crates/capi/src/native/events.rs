//! Events of a store, as JSON.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use serde_json::{Value, json};
use slmdb::{Event, EventListener, SpaceFor, StallCause};

use crate::common::order::State;

/// Receives an event: one JSON object, which lives as long as the call.
pub type OnEvent = unsafe extern "C" fn(state: *mut c_void, event: *const c_char, event_bytes: usize);

/// A listener that is a function of C.
pub(super) struct CListener {
    on_event: OnEvent,
    state: State,
}

impl CListener {
    pub(super) fn of(on_event: OnEvent, state: State) -> CListener {
        CListener { on_event, state }
    }
}

impl EventListener for CListener {
    fn on_event(&self, event: &Event) {
        // With a zero byte, for those who take it for a text.
        let text = json(event).to_string() + "\0";
        // SAFETY: CALLBACK; the text lives as long as the call.
        unsafe { (self.on_event)(self.state.pointer, text.as_ptr().cast(), text.len() - 1) };
    }
}

fn json(event: &Event) -> Value {
    let us = |duration: &Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    match event {
        Event::FlushBegan { generation, entries, memtable_bytes } => json!({
            "event": "flush_began", "generation": generation, "entries": entries, "memtable_bytes": memtable_bytes,
        }),
        Event::FlushEnded { generation, file, entries, bytes, duration } => json!({
            "event": "flush_ended", "generation": generation, "file": file, "entries": entries, "bytes": bytes,
            "duration_us": us(duration),
        }),
        Event::CompactionBegan { number, chosen_by, inputs, input_bytes } => json!({
            "event": "compaction_began", "number": number, "chosen_by": chosen_by, "inputs": inputs,
            "input_bytes": input_bytes,
        }),
        Event::CompactionEnded { number, inputs, outputs, bytes_read, bytes_written, duration } => json!({
            "event": "compaction_ended", "number": number, "inputs": inputs, "outputs": outputs,
            "bytes_read": bytes_read, "bytes_written": bytes_written, "duration_us": us(duration),
        }),
        Event::CompactionGivenUp { number, inputs, cause } => json!({
            "event": "compaction_given_up", "number": number, "inputs": inputs, "cause": cause.to_string(),
        }),
        Event::WriteStallBegan { waits_for } => json!({
            "event": "write_stall_began", "waits_for": name_of_cause(*waits_for),
        }),
        Event::WriteStallEnded { waits_for, duration } => json!({
            "event": "write_stall_ended", "waits_for": name_of_cause(*waits_for), "duration_us": us(duration),
        }),
        Event::Failed { cause } => json!({ "event": "failed", "cause": cause.to_string() }),
        Event::SpaceRefused { needed_by, cause } => json!({
            "event": "space_refused", "needed_by": name_of_need(*needed_by), "cause": cause.to_string(),
        }),
        Event::SpaceFound { needed_by } => json!({ "event": "space_found", "needed_by": name_of_need(*needed_by) }),
        Event::IndexCheckpointTaken { sequence_number, keys, bytes, duration } => json!({
            "event": "index_checkpoint_taken", "sequence_number": sequence_number, "keys": keys, "bytes": bytes,
            "duration_us": us(duration),
        }),
        Event::Lost { events } => json!({ "event": "lost", "events": events }),
        _ => json!({ "event": "other" }),
    }
}

fn name_of_cause(cause: StallCause) -> &'static str {
    match cause {
        StallCause::Pace => "pace",
        StallCause::Compaction => "compaction",
        StallCause::Flush => "flush",
        StallCause::MemTable => "memtable",
        StallCause::Space => "space",
        _ => "other",
    }
}

fn name_of_need(need: SpaceFor) -> &'static str {
    match need {
        SpaceFor::Write => "write",
        SpaceFor::Job => "job",
        _ => "other",
    }
}
