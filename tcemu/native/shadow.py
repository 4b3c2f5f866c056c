"""Compares and sets the marks of a few cells in the sanitizer's shadow memory.

An access touches some thirty cells. For so few, one call of a kernel takes less time than one operation of numpy.
"""

from __future__ import annotations

import numpy as np

from tcemu.kernels.host.compiling import merged, njit


@merged
def same_thread(mark, threads, own, lane):  # type: ignore[no-untyped-def]
    """Whether a mark is of an access that this lane, of the threads that `own` stands for, has made itself."""
    return threads[mark >> 5] == own and mark & 31 == lane


@njit(cache=True, nogil=True)
def put(marks, cells, mark):  # type: ignore[no-untyped-def]
    """Give all `cells` this mark."""
    for cell in cells:
        marks[cell] = mark


@njit(cache=True, nogil=True)
def latest(marks, cells):  # type: ignore[no-untyped-def]
    """The largest mark that `cells` have, and the smallest."""
    high = low = marks[cells[0]]
    for cell in cells:
        high, low = max(high, marks[cell]), min(low, marks[cell])
    return high, low


@njit(cache=True, nogil=True)
def put_each(marks, cells, first, lanes):  # type: ignore[no-untyped-def]
    """Give `cells` the marks `first` + lane."""
    for place in range(len(cells)):
        marks[cells[place]] = first + lanes[place]


@njit(cache=True, nogil=True)
def other(marks, cells, known):  # type: ignore[no-untyped-def]
    """A record that `cells` have a mark of and that is not `known`, bool (records,); -1 if there is none."""
    for cell in cells:
        record = marks[cell] >> 5
        if not known[record]:
            return record
    return -1


@njit(cache=True, nogil=True)
def load(written, reads, cells, known, first, lanes, needed, threads, own):  # type: ignore[no-untyped-def]
    """Give the `reads` of `cells` the marks `first` + lane, if all writes of them are of `known` records or its own.

    threads: of each record, what stands for the threads that made it, each for itself; `own` stands for these lanes.
    Return another record, or 0 if nothing has written to a cell and that is `needed`; otherwise -1 - the largest mark
    that the reads had before.
    """
    for place in range(len(cells)):
        mark = written[np.uint64(cells[place])]
        if mark == 0 and needed:
            return 0
        if not known[mark >> 5] and not same_thread(mark, threads, own, lanes[place]):
            return mark >> 5
    before = 0
    for cell in cells:  # before any is set: lanes may load the same cell
        before = max(before, reads[np.uint64(cell)])
    for place in range(len(cells)):
        reads[np.uint64(cells[place])] = first + lanes[place]
    return -1 - before


@njit(cache=True, nogil=True)
def store(written, reads, cells, known, first, lanes, threads, own):  # type: ignore[no-untyped-def]
    """Give the writes of `cells` the marks `first` + lane, if `known` records or these lanes made all accesses to them.

    `reads` has a row for each reader, whose reads end in their order: the latest one counts. threads and own: see
    `load`. Return another record; otherwise -1 - the largest mark before.
    """
    before = 0
    for place in range(len(cells)):
        mark = written[np.uint64(cells[place])]
        if not known[mark >> 5] and not same_thread(mark, threads, own, lanes[place]):
            return mark >> 5
        before = max(before, mark)
    for reader in range(len(reads)):
        latest = 0
        for cell in cells:
            latest = max(latest, reads[reader, np.uint64(cell)])
        if known[latest >> 5]:
            continue
        for place in range(len(cells)):
            mark = reads[reader, np.uint64(cells[place])]
            if not known[mark >> 5] and not same_thread(mark, threads, own, lanes[place]):
                return (mark if threads[latest >> 5] == own else latest) >> 5
    for place in range(len(cells)):
        written[np.uint64(cells[place])] = first + lanes[place]
    return -1 - before


@njit(cache=True, nogil=True)
def read(written, reads, cells, known, lanewise, mark):  # type: ignore[no-untyped-def]
    """Give the `reads` of `cells` this mark, if all writes of them are of `known` records that are not `lanewise`.

    Return another record, or 0 if nothing has written to a cell; otherwise -1 - the largest mark before.
    """
    before = latest = 0
    for cell in cells:
        record = written[np.uint64(cell)] >> 5
        if record != latest:  # most cells have been written by the same one
            if lanewise[record] or not known[record]:
                return record
            latest = record
        if record == 0:
            return record
        before = max(before, reads[np.uint64(cell)])
    for cell in cells:
        reads[np.uint64(cell)] = mark
    return -1 - before


@njit(cache=True, nogil=True)
def _largest(marks, cells):  # type: ignore[no-untyped-def]
    """The largest mark of `cells`, which ascend."""
    largest, first, end = marks[cells[0]], np.uint64(cells[0]), np.uint64(cells[-1] + 1)
    if end - first == len(cells):  # a run, of which the processor compares several at a time
        for cell in range(first, end):
            largest = max(largest, marks[cell])
    else:
        for cell in cells:
            largest = max(largest, marks[np.uint64(cell)])
    return largest


@njit(cache=True, nogil=True)
def fill(written, reads, cells, known, lanewise, mark):  # type: ignore[no-untyped-def]
    """Give the writes of `cells`, which ascend, this mark, if `known` records that are not `lanewise` made all of them.

    The last read by each reader, a row of `reads`, must be of a known record, too. Return another record; otherwise
    -1 - the largest mark before.
    """
    for reader in range(len(reads)):  # first, because their latest ones are often unknown at the first call
        latest = _largest(reads[reader], cells) >> 5
        if not known[latest]:
            return latest
    before = latest = 0
    for cell in cells:
        other = written[np.uint64(cell)]
        record = other >> 5
        if record != latest:  # most cells have been written by the same one
            if lanewise[record] or not known[record]:
                return record
            latest = record
        before = max(before, other)
    for cell in cells:
        written[np.uint64(cell)] = mark
    return -1 - before


@njit(cache=True, nogil=True)
def _free(accessed, marks, rows, addresses, size, shift, lanes, threads, own):  # type: ignore[no-untyped-def]
    """Whether the first `rows` rows have no marks of these cells but those of the same lanes; see `claim`."""
    per = size >> shift
    for place in range(len(addresses)):
        for cell in range(addresses[place] >> shift, (addresses[place] >> shift) + per):
            if accessed[cell]:
                for row in range(rows):
                    mark = marks[row, cell]
                    if mark and not same_thread(mark, threads, own, lanes[place]):
                        return False
    return True


@njit(cache=True, nogil=True)
def claim(accessed, marks, row, rows, addresses, size, shift, first, lanes, threads, own):  # type: ignore[no-untyped-def]
    """Give the cells of `size` bytes at `addresses` the marks `first` + lane in a row, if nobody else has.

    That is, if the first `rows` rows of their marks have no marks but those of the same lanes. threads: of each record,
    what stands for the threads that made it; `own` stands for these lanes. Cells have 1 << `shift` bytes. Return
    whether it was done.
    """
    if not _free(accessed, marks, rows, addresses, size, shift, lanes, threads, own):
        return False
    per = size >> shift
    for place in range(len(addresses)):
        for cell in range(addresses[place] >> shift, (addresses[place] >> shift) + per):
            accessed[cell] = True
            marks[row, cell] = first + lanes[place]
    return True


@njit(cache=True, nogil=True)
def reread(accessed, marks, row, rows, addresses, size, shift, first, lanes, threads, own):  # type: ignore[no-untyped-def]
    """Likewise for a read, in a row after which another keeps the last mark there by others."""
    if not _free(accessed, marks, rows, addresses, size, shift, lanes, threads, own):
        return False
    per = size >> shift
    for place in range(len(addresses)):
        for cell in range(addresses[place] >> shift, (addresses[place] >> shift) + per):
            accessed[cell] = True
            before = marks[row, cell]
            if before and threads[before >> 5] != own:
                marks[row + 1, cell] = before
            marks[row, cell] = first + lanes[place]
    return True


@njit(cache=True, nogil=True)
def units(addresses, shift):  # type: ignore[no-untyped-def]
    """The numbers of the units of 1 << `shift` bytes that hold `addresses` (n,), each once, in order."""
    low = high = addresses[0] >> shift
    for address in addresses:
        low, high = min(low, address >> shift), max(high, address >> shift)
    held = np.zeros(high - low + 1, np.bool_)
    for address in addresses:
        held[(address >> shift) - low] = True
    numbers, count = np.empty(len(held), np.int64), 0
    for unit in range(len(held)):
        if held[unit]:
            numbers[count], count = low + unit, count + 1
    return numbers[:count].copy()


@njit(cache=True, nogil=True)
def runs(addresses, size):  # type: ignore[no-untyped-def]
    """The runs that `size` bytes at each of the addresses (n,) make: their first bytes and their ends, (2, runs).

    The addresses must ascend; if they do not, there are no runs.
    """
    count = 1
    for place in range(1, len(addresses)):
        step = addresses[place] - addresses[place - 1]
        if step <= 0:
            return np.empty((2, 0), np.int64)
        count += step > size
    pairs = np.empty((2, count), np.int64)
    pairs[0, 0], run = addresses[0], 0
    for place in range(1, len(addresses)):
        if addresses[place] - addresses[place - 1] > size:
            pairs[1, run], run = addresses[place - 1] + size, run + 1
            pairs[0, run] = addresses[place]
    pairs[1, run] = addresses[-1] + size
    return pairs


@njit(cache=True, nogil=True)
def distinct(addresses):  # type: ignore[no-untyped-def]
    """Whether no two of a few `addresses` are equal."""
    ascending = True
    for place in range(1, len(addresses)):
        ascending &= addresses[place - 1] < addresses[place]
    if ascending:  # as most are
        return True
    for place in range(1, len(addresses)):
        for other in range(place):
            if addresses[place] == addresses[other]:
                return False
    return True
