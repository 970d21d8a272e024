//! The sweeps of an evaluation, as they came out here.

use crate::plot::MeasuredPoint;

/// A sweep, measured.
pub(super) struct Measured {
    pub name: &'static str,
    pub stores: Vec<String>,
    pub points: Vec<MeasuredPoint>,
}
