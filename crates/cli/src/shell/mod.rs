//! The shell: [`parse`] makes a request of a line, [`run`] carries it out and answers, [`editor`] reads lines from
//! people. Programs write lines and read answers without it.

mod editor;
mod parse;
mod run;

pub use editor::interactive;
pub use run::scripted;
