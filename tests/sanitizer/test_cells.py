"""The cells of shared memory that an access has, whichever accesses came before it."""

import numpy as np

from tcemu.sanitizer.shadow import Shadow, run_of

RANDOM = np.random.default_rng(11)


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
