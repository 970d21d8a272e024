"""Runs plyvel's own tests, unchanged, on `slmdb.plyvel` or on plyvel itself.

    python plyvel_suite.py slmdb|plyvel TEST_FILE

It succeeds if exactly those tests fail that are listed here. The last lines tell how many did what.
"""

import importlib
import sys

import pytest

#: What `slmdb.plyvel` can't do, and why.
DIFFERENCES = {
    "test_approximate_sizes": "it puts keys of up to 99,900 bytes; slmdb's end at 65,535",
}


class Counter:
    """Takes notes of what passed and what failed."""

    def __init__(self):
        self.passed, self.failed = set(), set()

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("::")[-1]
        if report.failed:
            self.failed.add(name)
        elif report.when == "call" and report.passed:
            self.passed.add(name)


def main(library, tests):
    """Runs the tests of a file on a library."""
    if library == "slmdb":
        sys.modules["plyvel"] = importlib.import_module("slmdb.plyvel")
    counter = Counter()
    pytest.main(["-q", "--tb=short", "-p", "no:cacheprovider", "-W", "ignore", tests], plugins=[counter])
    passed, failed = counter.passed - counter.failed, counter.failed
    expected = DIFFERENCES if library == "slmdb" else {}
    note = "; ".join(f"{name}: {expected.get(name, 'unexpected')}" for name in sorted(failed))
    print(f"RESULT|plyvel 1.5.1's tests|{library}|{len(passed)}|{len(failed)}|{note}")
    for name in sorted(set(expected) - failed):
        print(f"{name} passes now: take it from the list of differences")
    print(f"{len(passed)} passed, {len(failed)} failed, {len(failed & set(expected))} of these as expected")
    return 0 if failed == set(expected) and passed else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
