"""The cells of memory that an access has, whichever accesses came before it."""

import numpy as np
import pytest

from tcemu import parse
from tcemu.machine.events import By
from tcemu.sanitizer import global_shadow
from tcemu.sanitizer.global_shadow import OTHER, READ, GlobalShadow, Line
from tcemu.sanitizer.records import NOBODY
from tcemu.sanitizer.shadow import Shadow, run_of

LOAD = parse("ld.global.b32")
RANDOM = np.random.default_rng(11)


def shadow_of(size):
    """The shadow of one array. The lanes of a read are its marks, and each record belongs to a different warp."""
    return GlobalShadow([(0, size, "x")], lambda: np.arange(1 << 16), lambda line, _: line.lanes)


def test_cells_are_those_of_the_bytes(row):
    for trial in range(40):
        with row(trial):
            shadow = Shadow(1024, {})
            for size in RANDOM.choice([1, 2, 4, 8, 16], 6).tolist() * 2:  # each access comes twice
                addresses = size * RANDOM.integers(0, 1024 // size, RANDOM.integers(1, 80))
                cells, per = shadow.cells(addresses, size)
                assert len(cells) == per * len(addresses)
                expected = (addresses[:, None] + np.arange(size)) // shadow.cell
                found = np.repeat(cells.reshape(-1, per), shadow.cell, axis=1)
                assert np.array_equal(found, expected)


def test_a_run_of_cells_is_a_slice():
    marks = np.arange(64)
    for cells in (np.arange(5, 21), np.array([7]), np.array([3, 5, 6])):
        assert np.array_equal(marks[run_of(cells)], marks[cells])
    assert run_of(np.arange(5, 21)) == slice(5, 21)


def test_global_marks_stay_when_cells_become_smaller_or_more():
    for trial in range(20):
        shadow, marks = shadow_of(1 << 18), np.zeros(1 << 18, np.int64)
        for number, size in enumerate(RANDOM.choice([1, 2, 4, 8, 16], 12).tolist(), 1):
            addresses = size * RANDOM.choice((1 << 17 + trial % 2) // size, 32, replace=False)
            extent = int(addresses.min()), int(addresses.max()) + size
            cells, per = shadow.cells(addresses, size, extent[1])
            assert (shadow.known(cells) is None) == (not shadow.marks(cells).any())
            shadow.write(cells, np.full(len(cells), 32 * number), False, extent)
            marks[(addresses[:, None] + np.arange(size)).reshape(-1)] = 32 * number
            assert per == size // shadow.cell
        every, _ = shadow.cells(np.arange(0, 1 << 17), 1, 1 << 17)
        assert np.array_equal(shadow.marks(every)[0], marks[: 1 << 17])


@pytest.mark.parametrize("most", [3, 8, 1000])
def test_listed_reads_leave_the_marks_of_reads_one_after_the_other(monkeypatch, most):
    """The last read of each byte, and the last one before it by another warp, found by a loop over bytes."""
    monkeypatch.setattr(global_shadow, "LISTED", 100 * most)  # bytes
    for trial in range(40):
        shadow, last, other = shadow_of(4096), np.zeros(4096, np.int64), np.zeros(4096, np.int64)
        places = [(size, size * RANDOM.choice(256 // size, RANDOM.integers(1, 9))) for size in (4, 4, 8, 16, 16)]
        for number in range(24):  # many at the same addresses
            size, addresses = places[RANDOM.integers(len(places))]
            warp = int(RANDOM.integers(1, 4))
            mark = 32 * warp + number
            by = By(0, warp, 0, NOBODY.site)
            line = Line(by, LOAD, size, np.full(len(addresses), mark), 0)
            assert shadow.lists((line, addresses.tobytes(), 0), (int(addresses.min()), int(addresses.max()) + size))
            for place in (addresses[:, None] + np.arange(size)).ravel().tolist():
                if last[place] and last[place] >> 5 != mark >> 5:
                    other[place] = last[place]
                last[place] = mark
            if RANDOM.random() < 0.1:
                shadow.settle((0, 4))
        shadow.settle((0, 4))
        cells, _ = shadow.cells(np.arange(0, 4096, shadow.cell), shadow.cell, 4096)
        found = shadow.marks(cells).repeat(shadow.cell, axis=1)
        assert np.array_equal(found[READ], last)
        assert np.array_equal(found[OTHER], other), trial


def test_reads_at_the_same_addresses_do_not_lengthen_the_list():
    """As all blocks of a matrix product read the same tiles: of 20,000 reads at one place, few are noted."""
    noted = []
    threads = np.arange(1 << 16)
    shadow = GlobalShadow([(0, 4096, "x")], lambda: threads, lambda line, _: noted.append(line) or line.lanes)
    places, lanes = np.arange(32, dtype=np.int64).tobytes(), np.arange(32)
    for number in range(20_000):
        line = Line(NOBODY, LOAD, 1, lanes + 32 * (number % 7), number % 7)
        assert shadow.lists((line, places, 0), (0, 256))
    shadow.settle((0, 4))
    assert [line.number for line in noted] == [(20_000 - 2) % 7, (20_000 - 1) % 7]
