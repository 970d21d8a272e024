//! Accounts and their bookings: batches that are whole or not there, conditional writes, snapshots, a synced put.
//!
//! `cargo run -p slmdb --example accounts -- DIRECTORY`

use std::error::Error;

use slmdb::{Db, Snapshot, WriteBatch, WriteOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: accounts DIRECTORY")?;
    let db = Db::open(directory)?;
    for (name, cents) in [("ada", 10_000_u64), ("grace", 2_500)] {
        // A second run finds the accounts, and leaves them as they are.
        if !db.insert_if_absent(account(name), cents.to_be_bytes())? {
            println!("{name} has an account");
        }
    }
    let before = db.snapshot()?;
    pay(&db, "ada", "grace", 1_250)?;
    println!("before: ada {}, grace {}", cents(&before, "ada")?, cents(&before, "grace")?);
    let now = db.snapshot()?;
    println!("now:    ada {}, grace {}", cents(&now, "ada")?, cents(&now, "grace")?);
    for entry in db.prefix("booking/")? {
        let (key, value) = entry?;
        println!("{} {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
    }
    db.close()?;
    Ok(())
}

/// Moves money, and books that. After a crash or a power cut both accounts and the booking are there, or nothing is.
fn pay(db: &Db, from: &str, to: &str, amount_cents: u64) -> Result<(), Box<dyn Error>> {
    let seen = db.snapshot()?;
    let left_cents = cents(&seen, from)?.checked_sub(amount_cents).ok_or("too little money")?;
    let number = match db.prefix("booking/")?.next_back() {
        Some(last) => String::from_utf8_lossy(&last?.0["booking/".len()..]).parse::<u64>()? + 1,
        None => 1,
    };
    let mut batch = WriteBatch::new();
    batch.put(account(from), left_cents.to_be_bytes())?;
    batch.put(account(to), (cents(&seen, to)? + amount_cents).to_be_bytes())?;
    batch.put(format!("booking/{number:08}"), format!("{from} paid {to} {amount_cents}"))?;
    Ok(db.write_with(&batch, WriteOptions::new().sync(true))?)
}

fn account(name: &str) -> String {
    format!("account/{name}")
}

fn cents(seen: &Snapshot, name: &str) -> Result<u64, Box<dyn Error>> {
    let value = seen.get(account(name))?.ok_or_else(|| format!("{name} has no account"))?;
    Ok(u64::from_be_bytes(value[..].try_into()?))
}
