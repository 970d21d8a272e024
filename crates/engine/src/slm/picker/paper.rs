//! The paper's choice: candidates by the live-key ratio.

use super::Choice;
use crate::slm::compaction::Plan;

pub(super) fn pick(choice: &Choice<'_>) -> Option<Plan> {
    let mut candidates: Vec<(u32, f64)> = choice
        .state
        .files
        .iter()
        .filter(|(number, _)| (choice.is_free)(**number))
        .map(|(number, file)| (*number, choice.needed_part(file)))
        .filter(|(_, part)| *part < choice.options.live_key_threshold)
        .collect();
    candidates.sort_by(|a, b| a.1.total_cmp(&b.1));
    candidates.truncate(choice.options.files_merged_max);
    let inputs: Vec<u32> = candidates.into_iter().map(|(number, _)| number).collect();
    (!inputs.is_empty()).then_some(Plan { inputs, chosen_by: "live-key ratio" })
}
