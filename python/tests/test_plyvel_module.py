"""What of `slmdb.plyvel` plyvel's own tests don't reach, or what differs. `scripts/clients.d/python` runs plyvel's own."""

import pytest

from slmdb import plyvel


def test_approximate_sizes_of_keys_that_fit(path):
    """plyvel's own test wants keys of up to 99,900 bytes."""
    with plyvel.DB(str(path), create_if_missing=True) as db:
        with db.write_batch() as batch:
            for number in range(0, 1000, 100):
                batch.put(bytes(number) * 50, b"a" * 100_000)
    with plyvel.DB(str(path)) as db:
        db.flush()
        assert db.approximate_sizes() == []
        whole, nothing = db.approximate_sizes((b"", b"\xff"), (b"1", b"2"))
        assert whole > 0 and nothing == 0
        assert db.approximate_size(b"", b"\xff") == whole


def test_reading_back_and_forth(path):
    with plyvel.DB(str(path), create_if_missing=True) as db:
        for number in range(5):
            db.put(b"%d" % number, b"v%d" % number)
        with db.raw_iterator() as position:
            position.seek_to_last()
            assert position.item() == (b"4", b"v4")
            position.prev()
            position.prev()
            position.next()
            assert position.key() == b"3"
            position.seek(b"9")
            assert not position.valid()
            for move in (position.next, position.prev, position.key):
                with pytest.raises(plyvel.IteratorInvalidError):
                    move()
            position.seek(b"00")
            assert position.value() == b"v1"
        assert list(db.prefixed_db(b"3").snapshot()) == [(b"", b"v3")]
        with db.snapshot() as snapshot:
            assert isinstance(snapshot, plyvel.Snapshot)
            snapshot.release()


def test_options_that_mean_nothing_are_taken(path):
    with plyvel.DB(
        bytes(path),
        create_if_missing=True,
        paranoid_checks=True,
        write_buffer_size=1,
        max_open_files=1,
        lru_cache_size=1,
        block_size=1,
        block_restart_interval=1,
        max_file_size=1,
        bloom_filter_bits=10,
        compression=None,
    ) as db:
        assert db.name == bytes(path)
        assert db.get_property(b"leveldb.approximate-memory-usage").isdigit()
        assert db.get_property(b"leveldb.num-files-at-level6") == b"0"
        assert db.get_property(b"leveldb.num-files-at-level7") is None
    with pytest.raises(RuntimeError):
        db.get_property(b"other")
    plyvel.repair_db(str(path), paranoid_checks=True)
    plyvel.destroy_db(str(path))
    plyvel.destroy_db(str(path))


def test_a_key_that_is_too_long_is_an_error_of_plyvels(path):
    with plyvel.DB(str(path), create_if_missing=True) as db:
        with pytest.raises(plyvel.Error):
            db.put(b"k" * 65_536, b"")
