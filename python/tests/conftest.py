"""What the tests share."""

import pathlib
from collections.abc import Iterator

import pytest

import slmdb


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    """Where a store can be made."""
    return tmp_path / "db"


@pytest.fixture
def db(path: pathlib.Path) -> Iterator[slmdb.DB]:
    """An empty store."""
    with slmdb.DB(path) as db:
        yield db


def damage_table(db_path: pathlib.Path) -> pathlib.Path:
    """Overwrites the beginning of the only table file of a store, and returns its path."""
    [table] = pathlib.Path(db_path).glob("*.sst")
    with open(table, "rb+") as file:
        file.write(b"\xff" * 100)
    return table
