"""Iterators, beside a model: a sorted list and a place in it."""

import random

import pytest
from conftest import damage_table

import slmdb


class Model:
    """What an iterator should do."""

    def __init__(self, entries, reverse, start, stop, include_start, include_stop):
        def is_inside(key):
            after = start is None or key > start or (include_start and key == start)
            before = stop is None or key < stop or (include_stop and key == stop)
            return after and before

        self.keys = [key for key in sorted(entries) if is_inside(key)]
        self.entries, self.reverse = entries, reverse
        self.place = len(self.keys) if reverse else 0

    def step(self, forward):
        at = self.place if forward else self.place - 1
        if not 0 <= at < len(self.keys):
            return None
        self.place += 1 if forward else -1
        return self.keys[at], self.entries[self.keys[at]]

    def next(self):
        return self.step(not self.reverse)

    def prev(self):
        return self.step(self.reverse)

    def seek(self, target):
        self.place = sum(key < target for key in self.keys)

    def seek_to_start(self):
        self.place = 0

    def seek_to_stop(self):
        self.place = len(self.keys)


def prev(iterator):
    try:
        return iterator.prev()
    except StopIteration:
        return None


@pytest.mark.parametrize("seed", range(20))
def test_iterators_do_what_the_model_does(db, seed):
    rng = random.Random(seed)
    key = lambda: b"%d" % rng.randrange(2000)
    entries = {key(): key() * rng.choice([1, 1, 1, 3000]) for _ in range(rng.choice([0, 1, 5, 1000]))}
    for number, (name, value) in enumerate(entries.items()):
        db[name] = value
        if number % 400 == 399:
            db.flush()
    source = rng.choice([db, db.snapshot()])
    for name in list(entries)[::3]:
        db[name] = b"written later"
    for _ in range(15):
        start, stop = (rng.choice([None, key(), key()]) for _ in range(2))
        options = {
            "reverse": rng.random() < 0.5,
            "start": start,
            "stop": stop,
            "include_start": rng.random() < 0.5,
            "include_stop": rng.random() < 0.5,
        }
        if source is db:
            entries = dict(db.items())
        iterator, model = source.iterator(**options), Model(entries, **options)
        db[b"0"] = b"written when the iterator was made"
        for _ in range(60):
            what, steps = rng.randrange(10), rng.choice([1, 2, 30, 500])
            if what < 4:
                for _ in range(steps):
                    assert next(iterator, None) == model.next(), options
            elif what < 7:
                for _ in range(steps):
                    assert prev(iterator) == model.prev(), options
            elif what < 8:
                target = key()
                iterator.seek(target)
                model.seek(target)
            else:
                way = rng.choice(["seek_to_start", "seek_to_stop"])
                getattr(iterator, way)()
                getattr(model, way)()


def test_parts_of_entries(db):
    db[b"k"] = b"v"
    assert list(db.iterator()) == [(b"k", b"v")]
    assert list(db.iterator(include_value=False)) == [b"k"]
    assert list(db.iterator(include_key=False)) == [b"v"]
    assert list(db.iterator(include_key=False, include_value=False)) == [None]


def test_prefixes(db):
    for key in (b"a", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\xff\x01"):
        db[key] = b""
    assert list(db.keys(prefix=b"a")) == [b"a", b"a\xff", b"a\xff\xff"]
    assert list(db.keys(prefix=b"a\xff", reverse=True)) == [b"a\xff\xff", b"a\xff"]
    assert list(db.keys(prefix=b"\xff")) == [b"\xff", b"\xff\xff\x01"]
    assert list(db.keys(prefix=b"\xff\xff")) == [b"\xff\xff\x01"]
    assert len(list(db.keys(prefix=b""))) == 6
    for options in ({"start": b"a"}, {"stop": b"a"}):
        with pytest.raises(TypeError, match="prefix"):
            db.iterator(prefix=b"a", **options)


def test_keys_are_read_without_table_files(db):
    for number in range(1000):
        db[b"%04d" % number] = b"v" * 100
    db.flush()
    [file] = db.table_files()
    assert file["entries"] == file["live"] == 1000
    assert file["level"] == 0
    assert (file["smallest_key"], file["largest_key"]) == (b"0000", b"0999")
    damage_table(db.path)
    assert len(list(db.keys())) == 1000
    with pytest.raises(slmdb.CorruptionError):
        list(db.values())


def test_annotations_can_say_what_an_iterator_gives():
    assert str(slmdb.Iterator[bytes]) == "slmdb.Iterator[bytes]"
