"""The examples in the package's docstrings. `scripts/clients.d/python` runs those of the guide and the README."""

import doctest
import types

import pytest

import slmdb
import slmdb.plyvel


@pytest.mark.parametrize("module", [slmdb, slmdb.plyvel])
def test_examples_in_docstrings(module):
    failed, tried = doctest.testmod(module)
    assert failed == 0
    assert tried > 0 or module is slmdb.plyvel


def test_everything_says_what_it_is():
    for name in slmdb.__all__:
        thing = getattr(slmdb, name)
        if isinstance(thing, str):
            continue
        assert thing.__doc__, name
        members = vars(thing).items() if isinstance(thing, type) else []
        described = (types.MethodDescriptorType, types.GetSetDescriptorType, types.FunctionType, property)
        for member, value in members:
            if not member.startswith("_") and isinstance(value, described):
                assert value.__doc__, f"{name}.{member}"
