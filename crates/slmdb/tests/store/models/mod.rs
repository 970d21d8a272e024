//! Everything at random, compared with a model, or all at once.

mod metamorphic;
mod random_operations;
mod stress;
