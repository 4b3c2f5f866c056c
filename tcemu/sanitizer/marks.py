"""Compares and sets the marks of a few cells in shadow memory, with numpy: the twin of tcemu/native/shadow.py."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.backend import backend

Array = npt.NDArray[Any]


def fastest() -> ModuleType:
    """The module to use: that of the kernels if numba is loaded anyway, otherwise this one."""
    if backend(0) == "numba":
        from tcemu.native import shadow as kernels

        return kernels
    return sys.modules[__name__]


def compile_all() -> None:
    """Compile the kernels for every kind of arrays that they get: some of the machine's may not be written to."""
    tools, marks, accessed = fastest(), np.zeros(2, np.int64), np.zeros(2, bool)
    fixed = np.zeros(1, np.int64)
    fixed.setflags(write=False)
    for addresses in (fixed, fixed.copy()):
        tools.distinct(addresses)
        tools.runs(addresses, 1)
        tools.units(addresses, 0)
        for lanes in (fixed, fixed.copy()):
            for note in (tools.claim, tools.reread):
                note(accessed, np.zeros((2, 2), np.int64), 0, 1, addresses, 4, 2, 0, lanes, marks, 0)
    tools.put(marks, fixed.copy(), 0)
    tools.other(marks, fixed.copy(), accessed)
    tools.latest(marks, fixed.copy())
    reads = np.zeros((1, 2), np.int64)
    for lanes in (fixed, fixed.copy()):
        tools.put_each(marks, fixed.copy(), 0, lanes)
        tools.load(marks, reads[0], fixed.copy(), accessed, 0, lanes, True, marks, 0)
        tools.store(marks, reads, fixed.copy(), accessed, 0, lanes, marks, 0)
    tools.read(marks, reads[0], fixed.copy(), accessed, marks, 0)
    tools.fill(marks, reads, fixed.copy(), accessed, marks, 0)


def same_thread(marks: Array, threads: Array, own: int, lanes: Array) -> Array:
    """Which marks are of accesses that the lanes, of the threads that `own` stands for, have made themselves."""
    return np.asarray((threads[marks >> 5] == own) & (marks & 31 == lanes))


def put(marks: Array, cells: Array, mark: int) -> None:
    """Give all `cells` this mark."""
    marks[cells] = mark


def latest(marks: Array, cells: Array) -> tuple[int, int]:
    """The largest mark that `cells` have, and the smallest."""
    latest = marks[cells]
    return int(latest.max()), int(latest.min())


def put_each(marks: Array, cells: Array, first: int, lanes: Array) -> None:
    """Give `cells` the marks `first` + lane."""
    marks[cells] = first + lanes


def other(marks: Array, cells: Array, known: Array) -> int:
    """A record that `cells` have a mark of and that is not `known`, bool (records,); -1 if there is none."""
    records = marks[cells] >> 5
    unknown = records[~known[records]]
    return int(unknown[0]) if len(unknown) else -1


def load(
    written: Array,
    reads: Array,
    cells: Array,
    known: Array,
    first: int,
    lanes: Array,
    needed: bool,
    threads: Array,
    own: int,
) -> int:
    """Give the `reads` of `cells` the marks `first` + lane, if all writes of them are of `known` records or its own.

    threads: of each record, what stands for the threads that made it, each for itself; `own` stands for these lanes.
    Return another record, or 0 if nothing has written to a cell and that is `needed`; otherwise -1 - the largest mark
    that the reads had before.
    """
    marks = written[cells]
    if needed and not marks.all():
        return 0
    wrong = _others(marks, known, lanes, threads, own)
    if len(wrong):
        return int(wrong[0])
    before = int(reads[cells].max())
    reads[cells] = first + lanes
    return -1 - before


def _others(marks: Array, known: Array, lanes: Array, threads: Array, own: int) -> Array:
    """The records of marks (..., n), neither `known` nor of these lanes."""
    records = marks >> 5
    return np.asarray(records[~known[records] & ~same_thread(marks, threads, own, lanes)])


def store(
    written: Array, reads: Array, cells: Array, known: Array, first: int, lanes: Array, threads: Array, own: int
) -> int:
    """Give the writes of `cells` the marks `first` + lane, if `known` records or these lanes made all accesses to them.

    `reads` has a row for each reader, whose reads end in their order: the latest one counts. threads and own: see
    `load`. Return another record; otherwise -1 - the largest mark before.
    """
    wrong = _others(written[cells], known, lanes, threads, own)
    if len(wrong):
        return int(wrong[0])
    for marks in reads[:, cells]:
        latest, wrong = int(marks.max()) >> 5, _others(marks, known, lanes, threads, own)
        if len(wrong) and not known[latest]:
            return int(wrong[0]) if threads[latest] == own else latest
    before = int(written[cells].max())
    written[cells] = first + lanes
    return -1 - before


def read(written: Array, reads: Array, cells: Array, known: Array, lanewise: Array, mark: int) -> int:
    """Give the `reads` of `cells` this mark, if all writes of them are of `known` records that are not `lanewise`.

    Return another record, or 0 if nothing has written to a cell; otherwise -1 - the largest mark before.
    """
    records = written[cells] >> 5
    wrong = records[(records == 0) | (lanewise[records] != 0) | ~known[records]]
    if len(wrong):
        return int(wrong[0])
    before = int(reads[cells].max())
    reads[cells] = mark
    return -1 - before


def fill(written: Array, reads: Array, cells: Array, known: Array, lanewise: Array, mark: int) -> int:
    """Give the writes of `cells` this mark, if `known` records that are not `lanewise` made all of them.

    The last read by each reader, a row of `reads`, must be of a known record, too. Return another record; otherwise
    -1 - the largest mark before.
    """
    records, latest = written[cells] >> 5, np.maximum.reduce(reads[:, cells], axis=1) >> 5
    wrong = np.concatenate([records[(lanewise[records] != 0) | ~known[records]], latest[~known[latest]]])
    if len(wrong):
        return int(wrong[0])
    before = int(written[cells].max())
    written[cells] = mark
    return -1 - before


def claim(
    accessed: Array,
    marks: Array,
    row: int,
    rows: int,
    addresses: Array,
    size: int,
    shift: int,
    first: int,
    lanes: Array,
    threads: Array,
    own: int,
) -> bool:
    """Give the cells of `size` bytes at `addresses` the marks `first` + lane in a row, if nobody else has.

    That is, if the first `rows` rows of their marks have no marks but those of the same lanes. threads: of each record,
    what stands for the threads that made it; `own` stands for these lanes. Cells have 1 << `shift` bytes. Return
    whether it was done.
    """
    cells = (addresses >> shift)[:, None] + np.arange(size >> shift, dtype=np.int64)
    if accessed[cells].any():
        present = marks[:rows, cells]
        if np.any((present != 0) & ~same_thread(present, threads, own, lanes[:, None])):
            return False
    accessed[cells], marks[row, cells] = True, (first + lanes)[:, None]
    return True


def reread(
    accessed: Array,
    marks: Array,
    row: int,
    rows: int,
    addresses: Array,
    size: int,
    shift: int,
    first: int,
    lanes: Array,
    threads: Array,
    own: int,
) -> bool:
    """Likewise for a read, in a row after which another keeps the last mark there by others."""
    cells = (addresses >> shift)[:, None] + np.arange(size >> shift, dtype=np.int64)
    before = marks[row, cells]
    if not claim(accessed, marks, row, rows, addresses, size, shift, first, lanes, threads, own):
        return False
    others = (before != 0) & (threads[before >> 5] != own)
    marks[row + 1, cells[others]] = before[others]
    return True


def units(addresses: Array, shift: int) -> Array:
    """The numbers of the units of 1 << `shift` bytes that hold `addresses` (n,), each once, in order."""
    return np.flatnonzero(np.bincount((addresses >> shift).astype(np.intp, copy=False)))  # much faster than np.unique


def runs(addresses: Array, size: int) -> Array:
    """The runs that `size` bytes at each of the addresses (n,) make: their first bytes and their ends, (2, runs).

    The addresses must ascend; if they do not, there are no runs.
    """
    steps = addresses[1:] - addresses[:-1]
    if np.count_nonzero(steps <= 0):
        return np.empty((2, 0), np.int64)
    breaks = (steps > size).nonzero()[0]
    runs = np.empty((2, len(breaks) + 1), np.int64)
    runs[0, 0], runs[0, 1:] = addresses[0], addresses[breaks + 1]
    runs[1, -1], runs[1, :-1] = addresses[-1], addresses[breaks]
    runs[1] += size
    return runs


def distinct(addresses: Array) -> bool:
    """Whether no two of a few `addresses` are equal."""
    return len(set(addresses.tolist())) == len(addresses)
