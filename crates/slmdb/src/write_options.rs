//! [`WriteOptions`]: how one write is done.

/// How one write is done: [`Db::put_with`](crate::Db::put_with), [`Db::delete_with`](crate::Db::delete_with),
/// [`Db::write_with`](crate::Db::write_with), [`Db::insert_if_absent_with`](crate::Db::insert_if_absent_with) and
/// [`Db::update_if_present_with`](crate::Db::update_if_present_with).
///
/// ```
/// # fn main() -> slmdb::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = slmdb::Db::open(directory.path().join("db"))?;
/// use slmdb::WriteOptions;
///
/// db.put("cache/page", "can be had again")?; // survives a crash of the process
/// db.put_with("order/17", "paid", WriteOptions::new().sync(true))?; // survives a power cut, and so does all before it
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteOptions {
    sync: Option<bool>,
}

impl WriteOptions {
    /// As the store does it: [`Options::sync`](crate::Options::sync).
    pub fn new() -> WriteOptions {
        WriteOptions::default()
    }

    /// Whether the write returns only once it survives a power cut, with every write before it. On
    /// [`Medium::Dram`](crate::Medium::Dram) that takes one `fdatasync`, which writers share that wait at once; on
    /// [`Medium::Dax`](crate::Medium::Dax) nothing; on [`Medium::Emulated`](crate::Medium::Emulated) nothing is promised about
    /// power cuts either way. Default: as [`Options::sync`](crate::Options::sync) says.
    pub fn sync(mut self, yes: bool) -> WriteOptions {
        self.sync = Some(yes);
        self
    }

    /// Whether a write is synced in a store whose writes are, or are not.
    pub(crate) fn is_synced(self, usually: bool) -> bool {
        self.sync.unwrap_or(usually)
    }
}
