//! [`Moment`]: how fast a phase was from one moment to the next, which a mean hides: a store that stalls each few seconds may
//! have the same rate as one that never does.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::store::Numbers;

/// What was seen at a moment of a phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// When it was, from the beginning of the phase.
    pub at: Duration,
    /// Operations a second, since the moment before.
    pub operations_per_second: f64,
    /// What the store had in level 0 then, if it tells.
    pub level_zero_bytes: Option<u64>,
}

/// A phase that is looked at again and again.
pub(crate) struct OverTime {
    every: Duration,
    started: Instant,
    /// When was looked last, and how much had been done then.
    last: (Duration, u64),
    pub moments: Vec<Moment>,
}

impl OverTime {
    /// Of a phase that has just been started.
    pub fn new(every: Duration, started: Instant) -> OverTime {
        OverTime { every, started, last: (Duration::ZERO, 0), moments: Vec::new() }
    }

    /// How long it is until it is time to look.
    pub fn until_next(&self) -> Duration {
        (self.last.0 + self.every).saturating_sub(self.started.elapsed())
    }

    /// Looks, if it is time: so much has been done by now. A last look that would be too early is none.
    pub fn look(&mut self, done: u64, numbers: &dyn Fn() -> Numbers) {
        let at = self.started.elapsed();
        let (last, done_then) = self.last;
        let passed = at - last;
        if passed < self.every {
            return;
        }
        let operations_per_second = done.saturating_sub(done_then) as f64 / passed.as_secs_f64();
        let level_zero_bytes = numbers().level_zero_bytes;
        self.moments.push(Moment { at, operations_per_second, level_zero_bytes });
        self.last = (at, done);
    }
}

/// All moments: a list for each number.
pub(crate) fn json(moments: &[Moment]) -> Value {
    let list = |number: &dyn Fn(&Moment) -> Value| moments.iter().map(number).collect::<Vec<Value>>();
    let mut object = json!({
        "seconds": list(&|moment| moment.at.as_secs_f64().into()),
        "ops_per_second": list(&|moment| moment.operations_per_second.into()),
    });
    if moments.iter().any(|moment| moment.level_zero_bytes.is_some()) {
        object["level_zero_bytes"] = list(&|moment| moment.level_zero_bytes.into()).into();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_the_time_since_the_look_before() {
        let numbers = || Numbers { level_zero_bytes: Some(7), ..Numbers::default() };
        let second = Duration::from_secs(1);
        let mut over_time = OverTime::new(second, Instant::now() - 2 * second);
        assert_eq!(over_time.until_next(), Duration::ZERO);
        over_time.look(1000, &numbers);
        assert!(over_time.until_next() > Duration::ZERO);
        over_time.look(2000, &numbers);
        let [moment] = over_time.moments[..] else { panic!("the second look was too early: {:?}", over_time.moments) };
        assert!((450.0..=500.0).contains(&moment.operations_per_second), "{moment:?}");
        let json = json(&[moment]);
        assert_eq!((&json["level_zero_bytes"], json["seconds"].as_array().map(Vec::len)), (&json!([7]), Some(1)));
        let of_others = super::json(&[Moment { level_zero_bytes: None, ..moment }]);
        assert!(of_others.get("level_zero_bytes").is_none(), "{of_others}");
    }
}
