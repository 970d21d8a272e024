//! A store that does nothing: what it seems to take is what the bench itself takes.

use std::path::Path;

use crate::error::Result;
use crate::store::{Entry, Opener, Start, Store, Which};

/// Makes [`Empty`] stores.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmptyOpener;

/// Forgets what is put and finds nothing, but walks for as long as one likes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Empty;

impl Opener for EmptyOpener {
    fn name(&self) -> &str {
        "empty"
    }

    fn open(&self, _which: Which, _sync: bool) -> Result<Box<dyn Store>> {
        Ok(Box::new(Empty))
    }

    fn directory(&self) -> Option<&Path> {
        None
    }
}

impl Store for Empty {
    fn put(&self, _key: &[u8], _value: &[u8]) -> Result<()> {
        Ok(())
    }

    fn put_all(&self, _entries: &[(&[u8], &[u8])]) -> Result<()> {
        Ok(())
    }

    fn delete(&self, _key: &[u8]) -> Result<()> {
        Ok(())
    }

    fn get(&self, _key: &[u8], _look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(false)
    }

    fn walk(&self, _start: Start<'_>, visit: &mut dyn FnMut(&mut dyn Entry) -> Result<bool>) -> Result<()> {
        while visit(&mut Nothing)? {}
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

/// An entry without key and value.
struct Nothing;

impl Entry for Nothing {
    fn key(&self) -> &[u8] {
        b""
    }

    fn value(&mut self) -> Result<&[u8]> {
        Ok(b"")
    }
}
