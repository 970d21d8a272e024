"""Measures slmdb beside plyvel, lmdb and rocksdict, all from Python.

    python compare.py [--entries N] [--turns N] [--directory DIR] [--table FILE] [--plot FILE]

The stores take turns: each turn makes a new store of each and does every kind of work on it. The tables have the medians
of all turns, in microseconds an operation: of the time that passed, and of the processor time of the thread that called.
The latter says more where the machine has other work; what stores do on other threads is not in it. The picture is of
it. What is not installed is left out, and named. docs/measured/python.md has results.
"""

import argparse
import importlib
import math
import pathlib
import random
import shutil
import statistics
import sys
import tempfile
import time

KEY_BYTES, VALUE_BYTES, BATCH_ENTRIES, RANGE_ENTRIES = 16, 100, 100, 100
#: Puts one by one, puts in batches, gets, gets of missing keys, ranges: in the order in which they are measured.
KINDS = ["fill", "batch", "get", "missing", "range"]
COLOURS = ["#1b6ca8", "#d1495b", "#edae49", "#66a182", "#8d6a9f"]


class Slmdb:
    """slmdb by its own interface."""

    name, package = "slmdb", "slmdb"

    def __init__(self, module, path):
        self.db = module.DB(path)
        self.put, self.get, self.close = self.db.put, self.db.get, self.db.close

    def put_all(self, entries):
        with self.db.write_batch() as batch:
            for key, value in entries:
                batch.put(key, value)

    def walk(self, start, entries):
        return sum(1 for _ in zip(range(entries), self.db.iterator(start=start)))


class SlmdbAsPlyvel(Slmdb):
    """slmdb by plyvel's interface."""

    name, package = "slmdb.plyvel", "slmdb.plyvel"

    def __init__(self, module, path):
        self.db = module.DB(path, create_if_missing=True)
        self.put, self.get, self.close = self.db.put, self.db.get, self.db.close


class Plyvel(SlmdbAsPlyvel):
    """LevelDB by plyvel. Its cache and its write buffer are as large as slmdb's."""

    name, package = "plyvel", "plyvel"

    def __init__(self, module, path):
        self.db = module.DB(path, create_if_missing=True, write_buffer_size=64 << 20, lru_cache_size=256 << 20)
        self.put, self.get, self.close = self.db.put, self.db.get, self.db.close


class Lmdb:
    """LMDB, without a sync for each write, as the others."""

    name, package = "lmdb", "lmdb"

    def __init__(self, module, path):
        self.env = module.open(path, map_size=8 << 30, sync=False, metasync=False)
        self.close = self.env.close

    def put(self, key, value):
        with self.env.begin(write=True) as transaction:
            transaction.put(key, value)

    def put_all(self, entries):
        with self.env.begin(write=True) as transaction:
            for key, value in entries:
                transaction.put(key, value)

    def get(self, key):
        with self.env.begin() as transaction:
            return transaction.get(key)

    def walk(self, start, entries):
        with self.env.begin() as transaction, transaction.cursor() as cursor:
            cursor.set_range(start)
            return sum(1 for _ in zip(range(entries), cursor))


class Rocksdict:
    """RocksDB by rocksdict, with raw bytes."""

    name, package = "rocksdict", "rocksdict"

    def __init__(self, module, path):
        self.module, self.db = module, module.Rdict(path, module.Options(raw_mode=True))
        self.put, self.get, self.close = self.db.put, self.db.get, self.db.close

    def put_all(self, entries):
        batch = self.module.WriteBatch(raw_mode=True)
        for key, value in entries:
            batch.put(key, value)
        self.db.write(batch)

    def walk(self, start, entries):
        return sum(1 for _ in zip(range(entries), self.db.items(from_key=start)))


def seconds(work):
    """How long it takes, and how long this thread has a processor for it."""
    before, processor_before = time.perf_counter(), time.thread_time()
    work()
    return time.perf_counter() - before, time.thread_time() - processor_before


def measure(store, entries, rng):
    """Microseconds an operation, of each kind of work: that passed, and of the processor. A batch counts its entries, and
    a range those that it has."""
    pool = rng.randbytes(1 << 20)
    pairs = [
        (b"%0*d" % (KEY_BYTES, rng.randrange(10**KEY_BYTES)), pool[at : at + VALUE_BYTES])
        for at in (rng.randrange(len(pool) - VALUE_BYTES) for _ in range(2 * entries))
    ]
    singles, batched = pairs[:entries], pairs[entries:]
    asked = [rng.choice(pairs)[0] for _ in range(entries)]
    starts = [rng.choice(pairs)[0] for _ in range(entries // RANGE_ENTRIES)]

    def fill():
        for key, value in singles:
            store.put(key, value)

    def batch():
        for at in range(0, entries, BATCH_ENTRIES):
            store.put_all(batched[at : at + BATCH_ENTRIES])

    def get():
        assert all(store.get(key) is not None for key in asked)

    def missing():
        assert all(store.get(key + b".") is None for key in asked)

    walked = 0

    def walk():
        nonlocal walked
        for start in starts:
            walked += store.walk(start, RANGE_ENTRIES)

    taken = [seconds(work) for work in (fill, batch, get, missing, walk)]
    operations = [entries, entries, entries, entries, walked]
    return {kind: [took * 1e6 / count for took in both] for kind, both, count in zip(KINDS, taken, operations)}


def table(medians):
    """The medians as a table in Markdown."""
    lines = ["| store | " + " | ".join(KINDS) + " |", "|---" * (len(KINDS) + 1) + "|"]
    for name, figures in medians.items():
        lines.append(f"| {name} | " + " | ".join(f"{figures[kind]:.2f}" for kind in KINDS) + " |")
    return "\n".join(lines)


def plot(medians, title):
    """The medians as bars, in SVG: a group for each kind of work, on a logarithmic scale."""
    height, bar, gap, left, top = 260, 22, 30, 60, 50
    all_figures = [figures[kind] for figures in medians.values() for kind in KINDS]
    lowest = 10 ** math.floor(math.log10(min(all_figures)))
    decades = math.log10(max(all_figures) / lowest) * 1.05
    group = bar * len(medians) + gap
    width = left + group * len(KINDS) + 20
    y = lambda figure: top + height * (1 - math.log10(figure / lowest) / decades)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top + height + 60}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="100%" height="100%" fill="white"/><text x="{left}" y="18" font-size="13">{title}</text>',
    ]
    tick = lowest
    while tick <= max(all_figures):
        out.append(f'<path d="M{left} {y(tick):.1f}H{width - 20}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
        tick *= 10
    for place, kind in enumerate(KINDS):
        x = left + gap / 2 + place * group
        out.append(f'<text x="{x + (group - gap) / 2:.0f}" y="{top + height + 18}" text-anchor="middle">{kind}</text>')
        for number, figures in enumerate(medians.values()):
            at = y(figures[kind])
            out.append(
                f'<rect x="{x + number * bar:.0f}" y="{at:.1f}" width="{bar - 3}" height="{top + height - at:.1f}" '
                f'fill="{COLOURS[number]}"><title>{figures[kind]:.2f}</title></rect>'
            )
    for number, name in enumerate(medians):
        x = left + number * 110
        out.append(f'<rect x="{x}" y="{top + height + 36}" width="10" height="10" fill="{COLOURS[number]}"/>')
        out.append(f'<text x="{x + 15}" y="{top + height + 45}">{name}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    """Measures, and writes what was measured."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--entries", type=int, default=200_000, help="entries of each kind of work")
    arguments.add_argument("--turns", type=int, default=5, help="how often each store has its turn")
    arguments.add_argument("--directory", help="where the stores are made")
    arguments.add_argument("--table", type=pathlib.Path, help="a file for the table")
    arguments.add_argument("--plot", type=pathlib.Path, help="a file for the picture, in SVG")
    options = arguments.parse_args()

    stores = []
    for store in (Slmdb, SlmdbAsPlyvel, Plyvel, Lmdb, Rocksdict):
        try:
            stores.append((store, importlib.import_module(store.package)))
        except ImportError as error:
            print(f"SKIPPED: {store.name}: {error}", file=sys.stderr)
    turns = {store.name: [] for store, _ in stores}
    for turn in range(options.turns):
        # Nobody always comes after the same one.
        for store, module in stores[turn % len(stores) :] + stores[: turn % len(stores)]:
            directory = tempfile.mkdtemp(dir=options.directory)
            try:
                opened = store(module, directory)
                turns[store.name].append(measure(opened, options.entries, random.Random(turn)))
                opened.close()
            finally:
                shutil.rmtree(directory)
            print(f"turn {turn + 1} of {options.turns}: {store.name}", file=sys.stderr)
    passed, processor = (
        {
            name: {kind: statistics.median(figures[kind][which] for figures in all_turns) for kind in KINDS}
            for name, all_turns in turns.items()
        }
        for which in (0, 1)
    )
    text = f"Time that passed:\n\n{table(passed)}\n\nProcessor time of the caller:\n\n{table(processor)}"
    print(text)
    if options.table:
        options.table.write_text(text + "\n")
    if options.plot:
        options.plot.write_text(plot(processor, "microseconds of processor time an operation takes its caller"))


if __name__ == "__main__":
    main()
