//! The paper's choice: candidates by the live-key ratio.

use super::Choice;
use crate::slm::compaction::Plan;

pub(super) fn pick(choice: &Choice<'_>) -> Option<Plan> {
    super::gain::pick(choice)
}
