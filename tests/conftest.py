"""Fixtures of several files."""

import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import quick
from hypothesis import settings
from places import ROOT

TESTS = Path(__file__).parent
#: Rooms whose tests need Linux, and why.
LINUX = {
    "browser": "Debian's chromium",
    "classroom": "JupyterHub, and boxes of bubblewrap",
    "grade": "boxes of bubblewrap",
}
#: Failing rows of a loop that are reported.
MOST = 20
BROWSER = ROOT / "tests" / "browser"
#: Of the parameters of a test, how many the quick part asks.
PARAMETERS = 2


class Skipped(pytest.Dir):
    """A folder whose tests this system cannot run; none of its files is imported."""

    def collect(self):
        pytest.skip(f"{self.path.name} needs Linux: {LINUX[self.path.name]}")


def pytest_collect_directory(path, parent):
    """Skip, by name, the rooms that need Linux."""
    skipped = sys.platform == "win32" and path.parent == TESTS and path.name in LINUX
    return Skipped.from_parent(parent, path=path) if skipped else None


def pytest_configure(config):
    """Tell `some` and `examples`, before the tests are collected, how much to ask."""
    quick.QUICK = "not slow" in config.option.markexpr
    quick.THOROUGH = config.getoption("--thorough")
    if quick.QUICK:
        settings.register_profile("quick", settings.get_profile("tcemu"), max_examples=20)
        settings.load_profile("quick")


def pytest_ignore_collect(collection_path):
    """Leave tests/browser out of the quick part: all of it is slow, and takes a while to import."""
    return True if quick.QUICK and collection_path == BROWSER else None


def pytest_terminal_summary(terminalreporter):
    """After failures, say how to ask the same samples again; hypothesis prints how to repeat its own examples."""
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(f"The samples were those of TCEMU_DAY={quick.DAY}, which asks them again.")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """In the quick part, ask only some of a test's parameters. What is marked as slow has gone by now."""
    if not quick.QUICK:
        return
    of_one = {}
    for item in items:
        of_one.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {item.nodeid for every in of_one.values() for item in quick.some(every, PARAMETERS)}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


@pytest.fixture
def row(subtests):
    """Runs one row of a loop, `with row(name):`. A row that fails is reported by its name; the loop continues.

    A test of a table is one loop, not a test for each row: thousands of small tests cost more than what they ask, and
    `subtests` alone reports the passing ones too. A test without rows does not pass; where everything fails, the loop
    ends after MOST rows.
    """
    names, failed = set(), []

    @contextmanager
    def one(name):
        assert name not in names, f"two rows with the name {name}"
        names.add(name)
        try:
            yield
        except (Exception, pytest.fail.Exception):
            failed.append(name)
            with subtests.test(str(name)):
                raise
            if len(failed) == MOST:
                pytest.fail(f"{MOST} of {len(names)} rows fail; no more were asked")

    yield one
    assert names, "no row was asked"
