//! What is there after a kill or a power cut.

mod arena_generations;
mod conditional_kill;
mod kill;
mod upkeep_kill;
