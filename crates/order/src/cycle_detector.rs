//! [`CycleDetector`]: finding out that a walk goes round in a circle (INV-25).

/// The keys that a walk in one direction passes, of which it remembers one.
///
/// A walk through sorted keys goes on from the last key it has seen, and asks the order what comes next. Under an order
/// that is none (a before b, b before c, c before a) it may come back to where it was and never end; comparing each key
/// with the one before does not show that. This does, by Brent's algorithm: of the keys passed one is remembered, after
/// 1, 2, 4, 8, ... steps the one of that moment, and meeting the remembered key again means a circle. It costs one
/// comparison of bytes a step, and is never wrong about a total order, under which no key is passed twice.
#[derive(Debug, Clone, Default)]
pub struct CycleDetector {
    remembered: Vec<u8>,
    steps: u64,
}

impl CycleDetector {
    /// A walk begins, from any place.
    pub fn begin(&mut self) {
        self.steps = 0;
    }

    /// The walk passes a key. `false`: for the second time; it goes round in a circle.
    pub fn visit(&mut self, key: &[u8]) -> bool {
        if self.steps > 0 && self.remembered == key {
            return false;
        }
        self.steps += 1;
        if self.steps.is_power_of_two() {
            self.remembered.clear();
            self.remembered.extend_from_slice(key);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found_wherever_it_begins() {
        for before in [0, 1, 5, 100] {
            for circle in [1, 2, 3, 50] {
                let mut cycle_detector = CycleDetector::default();
                cycle_detector.begin();
                let place = |step: u32| if step < before { step } else { before + (step - before) % circle };
                let found = (0..).find(|&step| !cycle_detector.visit(&place(step).to_be_bytes())).unwrap();
                assert!(found >= before + circle && found <= 4 * (before + circle), "{before} {circle} {found}");
            }
        }
    }

    #[test]
    fn a_straight_way_is_none_and_another_may_follow() {
        let mut cycle_detector = CycleDetector::default();
        for _ in 0..3 {
            cycle_detector.begin();
            assert!((0..1000_u32).all(|step| cycle_detector.visit(&step.to_be_bytes())));
        }
        cycle_detector.begin();
        assert!(cycle_detector.visit(b"") && !cycle_detector.visit(b""));
    }
}
