// What Debian's package libleveldb1.2-cil can do, which calls LevelDB's C interface: sharp DIRECTORY.
using System;
using System.Linq;
using LevelDB;

static class Sharp
{
    static void Check(bool holds, string what)
    {
        if (holds) return;
        Console.Error.WriteLine("it does not hold: " + what);
        Environment.Exit(1);
    }

    static void Phase(string name) { Console.Error.WriteLine("=== Test " + name); }

    static void Main(string[] arguments)
    {
        string path = arguments[0];
        var options = new Options { CreateIfMissing = true, ErrorIfExists = true, WriteBufferSize = 1 << 20 };

        Phase("reads and writes");
        DB db = DB.Open(options, path);
        db["apple"] = "red";
        db.Put(new WriteOptions { Sync = true }, "pear", "green");
        Check(db["apple"] == "red" && db.Get("pear") == "green" && db.Get("plum") == null, "values are those that were put");
        db.Delete("apple");
        Check(db.Get("apple") == null, "a deleted key has no value");

        Phase("batches");
        var batch = new WriteBatch();
        batch.Put("plum", "blue");
        batch.Delete("pear");
        db.Write(batch);
        Check(db.Get("plum") == "blue" && db.Get("pear") == null, "a batch is applied");

        Phase("compaction and properties");
        db["plum"] = "yellow";
        for (int number = 0; number < 100; number++) db["key" + number.ToString("000")] = "v" + number;
        db.Compact();
        Check(db.GetProperty("leveldb.num-files-at-level0") != null, "a property has a value");
        Check(db.Get("key050") == "v50", "values are there after it");

        Phase("opening again");
        db.Dispose();
        bool refused = false;
        try { DB.Open(options, path); } catch (ApplicationException) { refused = true; }
        Check(refused, "an existing store is an error");
        DB.Repair(new Options(), path);
        db = DB.Open(new Options(), path);
        Check(db.Get("plum") == "yellow", "values are there after a repair");

        // The binding gives snapshots and iterators back when the collector likes, which may be after the store is closed.
        // LevelDB aborts then. So this store stays open to the end of the process.
        GC.SuppressFinalize(db);
        Phase("snapshots");
        Snapshot snapshot = db.CreateSnapshot();
        db["plum"] = "white";
        Check(db.Get(new ReadOptions { Snapshot = snapshot }, "plum") == "yellow", "a snapshot sees its moment");

        Phase("iteration");
        Check(string.Join(",", db.Select(entry => entry.Key).Take(2)) == "key000,key001", "keys come in order");
        Check(db.Count() == 101, "all keys come");
    }
}
