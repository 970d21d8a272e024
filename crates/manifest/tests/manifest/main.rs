//! MANIFEST files: models, failures and damage.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod damage;
mod failures;
mod model;
mod text;
