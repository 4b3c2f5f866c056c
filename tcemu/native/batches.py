"""Compares and notes, for the sanitizer, the loads and stores in the logs of warps: many in one call.

The logs are those of tcemu.machine.events.Accesses, one behind the other. `heads` finds their records, and which of
them are of one sort; `advance` does for each what native/shadow.py does for a single one, and stops at the first that
does not fit.
"""

from __future__ import annotations

import numpy as np

from tcemu.kernels.host.compiling import merged, njit
from tcemu.native.shadow import claim, load, reread, store

#: State spaces, as `heads` takes and gives them.
SHARED, GLOBAL, GENERIC = 0, 1, 2
#: Sorts of a record that has no lanes, and of one whose lanes use several state spaces.
NOTHING, SEVERAL = -2, -1
#: The fields of a sort: the instruction of its first record, the mask, the space, whether it writes, the number of its
#: log, and the bytes of a lane; what to add to an address; the mark of lane 0; whether a load is .nc; the sort before
#: it of the same line, with another mask or space, or -1.
NUMBER, MASK, SPACE, WRITES, LOG, SIZE, BASE, FIRST, INCOHERENT, OLDER, FIELDS = range(11)
#: The scalars of `advance`: of shared memory the bits of a cell, whether loads and stores can be noted; of global
#: memory the bits of a cell, the bytes that have cells; the bytes of copies that wrote and that read, and of tensor
#: maps, first and end each; and what comes back, added to what is there: the bytes that have been written, first and
#: end, and how many loads are listed.
(
    SHIFT, LOADS, STORES, FAR_SHIFT, COVERED, STORED, STORED_END, LOADED, LOADED_END, MAPS, MAPS_END,
    LOW, HIGH, LISTS, SCALARS,
) = range(15)  # fmt: skip
#: What `advance` needs to know of a log's warp: its row among the reads of shared memory, what stands for its threads
#: in shared and in global memory, and the leg of the log.
READER, OWN, FAR_OWN, LEG, WARP = range(5)
#: Why `advance` stops: it has done all; this record does not fit; the number of this sort is missing.
DONE, SINGLE, UNNUMBERED = 0, 1, 2
#: Rows of the marks of global memory: see global_shadow.py.
_WEAK, _READ, _SEEN = 0, 2, 5
#: The most cells that an access of one lane can have.
_WIDEST = 32


@njit(cache=True, nogil=True)
def heads(heads, words, begins, lengths, rows, latest, own, window, place, ats, sorts, fields):  # type: ignore[no-untyped-def]
    """Find the records of logs: where each begins, and its sort.

    Return their number, that of the sorts, whether lanes of some record use several state spaces, and how many words
    the records have.

    `heads` and `words` are the logs as u32 and as i64, which begin at the words `begins`; `lengths` the words of a
    record by instruction. `rows` have for each instruction the group that shares records, the space, whether it writes,
    its bytes and whether it is .nc; `latest` has room for a number by group. Generic addresses from `own` to `own` +
    `window` are shared memory. `place` is added to addresses there. Records of sorts that do not fit in `fields` are
    left for another call.
    """
    at, count, made, log, several = 0, 0, 0, -1, False
    while at < len(words):
        if log + 1 < len(begins) and at == begins[log + 1]:
            latest[:] = -1
            log += 1
        number, mask = heads[2 * at], heads[2 * at + 1]
        space, base = rows[number, 1], 0
        if space == GENERIC and mask:
            near = far = False
            for lane in range(32):
                if mask >> lane & 1:
                    address = words[at + 1 + lane]
                    if own <= address < own + window:
                        near = True
                    else:
                        far = True
            space, base = (SHARED, -own) if not far else (GLOBAL, 0) if not near else (SEVERAL, 0)
        sort = NOTHING if not mask else SEVERAL
        several |= space == SEVERAL
        if mask and space != SEVERAL:
            group = rows[number, 0]
            sort = latest[group]
            while sort >= 0 and (fields[sort, MASK] != mask or fields[sort, SPACE] != space):
                sort = fields[sort, OLDER]
            if sort < 0:
                if made == len(fields):
                    break
                sort = made
                fields[made, OLDER], latest[group] = latest[group], made
                fields[made, NUMBER], fields[made, MASK], fields[made, SPACE] = number, mask, space
                fields[made, WRITES], fields[made, SIZE], fields[made, INCOHERENT] = rows[number, 2:5]
                fields[made, LOG] = log
                fields[made, FIRST] = 0
                fields[made, BASE] = place + base if space == SHARED else 0
                made += 1
        ats[count], sorts[count] = at + 1, sort
        count += 1
        at += lengths[number]
    return count, made, several, at


@njit(cache=True, nogil=True)
def runs(words, ats, sorts, fields, listed, into, addresses):  # type: ignore[no-untyped-def]
    """Put loads that `advance` has listed into runs, each of one array and sort. Return their number.

    A run in `into` has its sort, whether all lanes of each load read the same, the first byte, the end, and where its
    addresses begin and end in `addresses`: one for each load or, if lanes differ, one for each lane. The loads of an
    array stay in their order.
    """
    made, put, array = 0, 0, np.int64(-1)
    while True:
        least = np.int64(1) << 62
        for row in range(len(listed)):
            if array < listed[row, 1] < least:
                least = listed[row, 1]
        if least == np.int64(1) << 62:
            return made
        array, begun = least, made
        for row in range(len(listed)):
            number, where, low, high = listed[row]
            if where != array:
                continue
            sort, at = sorts[number], ats[number]
            same = np.int64(high - low == fields[sort, SIZE])
            if made == begun or into[made - 1, 0] != sort or into[made - 1, 1] != same:
                into[made, 0], into[made, 1], into[made, 2], into[made, 3] = sort, same, low, high
                into[made, 4] = put
                made += 1
            into[made - 1, 2], into[made - 1, 3] = min(into[made - 1, 2], low), max(into[made - 1, 3], high)
            if same:
                addresses[put], put = low, put + 1
            else:
                for lane in range(32):
                    if fields[sort, MASK] >> lane & 1:
                        addresses[put], put = words[at + lane], put + 1
            into[made - 1, 5] = put


@njit(cache=True, nogil=True)
def _learn(record, known, column, clock, lanewise, row):  # type: ignore[no-untyped-def]
    """Whether a record has ended for a row; if so, it is known from now on: see records.learn."""
    if not known[record]:
        first = column[record]
        least = row[first]
        if lanewise[record]:
            for lane in range(1, 32):
                least = min(least, row[first + lane])
        known[record] = least > clock[record]
    return known[record]


@njit(cache=True, nogil=True)
def _apart(words, at, mask):  # type: ignore[no-untyped-def]
    """Whether no two lanes have the same address."""
    before, ascending = -1, True
    for lane in range(32):
        if mask >> lane & 1:
            ascending &= words[at + lane] > before
            before = words[at + lane]
    if ascending:
        return True
    for lane in range(32):
        for other in range(lane):
            if mask >> lane & 1 and mask >> other & 1 and words[at + lane] == words[at + other]:
                return False
    return True


@njit(cache=True, nogil=True)
def _gather(words, at, mask, base, shift, per, cells, lanes):  # type: ignore[no-untyped-def]
    """The `per` units of 1 << `shift` bytes at the address of each lane, and the lane of each. Return their number."""
    count = 0
    for lane in range(32):
        if mask >> lane & 1:
            first = (words[at + lane] + base) >> shift
            for cell in range(first, first + per):
                cells[count], lanes[count] = cell, lane
                count += 1
    return count


@merged
def _note(sort, cells, lanes, written, reads, mine, own, known, threads, column, clock, lanewise, previous, row):  # type: ignore[no-untyped-def]
    """An access to shared memory, as Quick.reads and Quick.writes note it. Return whether it was noted."""
    while True:
        if sort[WRITES]:
            answer = store(written, reads, cells, known, sort[FIRST], lanes, threads, own)
        else:
            answer = load(written, reads[mine], cells, known, sort[FIRST], lanes, True, threads, own)
        if answer < 0:
            break
        if answer == 0 or not _learn(answer, known, column, clock, lanewise, row):
            return False
    _link(previous, sort[FIRST] >> 5, -1 - answer >> 5)
    return True


@merged
def _reread(words, at, fields, which, shift, per, written, reads, reader, knowns, leg, previous):  # type: ignore[no-untyped-def]
    """A load from shared memory, of what a single record has written that is known to have ended, as most are.

    Return whether it was noted, as `_note` would note it. What else there could be is left to it: with that here, too,
    a load takes half as long again.
    """
    first, mask, base = fields[which, FIRST], fields[which, MASK], fields[which, BASE]
    low, high, before = np.int64(1) << 62, np.int64(0), np.int64(0)
    for part in range(per):
        for lane in range(32):
            if mask >> lane & 1:
                cell = np.uint64(((words[np.uint64(at + lane)] + base) >> shift) + part)
                low, high, before = min(low, written[cell]), max(high, written[cell]), max(before, reads[reader, cell])
    record = low >> 5
    if record == 0 or record != high >> 5 or not knowns[leg, record]:
        return False
    for part in range(per):
        for lane in range(32):
            if mask >> lane & 1:
                reads[reader, np.uint64(((words[np.uint64(at + lane)] + base) >> shift) + part)] = first + lane
    _link(previous, first >> 5, before >> 5)
    return True


@merged
def _link(previous, record, before):  # type: ignore[no-untyped-def]
    """Remember the record before, if it is the first and older: see records.link."""
    if not previous[record] and before < record:
        previous[record] = before


@njit(cache=True, nogil=True)
def advance(  # type: ignore[no-untyped-def]
    words, ats, sorts, begin, end, fields, warps, scalars, written, reads, knowns, threads, column, clock, lanewise,
    previous, rows, accessed, marks, far_threads, arrays, listed,
):  # fmt: skip
    """Note the records from number `begin` to `end` - 1. Return the number of the first one not noted, and why.

    `warps` say of each log who made it. Shared memory: the last writes of cells, the last reads by each reader, of
    records what records.py keeps, and by leg the row that all these warps know. Global memory: the cells that have been
    accessed, their marks, the threads of accesses, and `arrays` (first byte, end, whether it has been written). Loads
    from arrays that have not been written are only listed: in `listed`, the number of the record, its array, and its
    first byte and end.
    """
    cells, lanes = np.empty(32 * _WIDEST, np.int64), np.empty(32 * _WIDEST, np.int64)
    for number in range(begin, end):
        which, at = sorts[number], ats[number]
        if which == NOTHING:
            continue
        if which == SEVERAL:
            return number, SINGLE
        mask, writes, size, log = fields[which, MASK], fields[which, WRITES], fields[which, SIZE], fields[which, LOG]
        if writes and not _apart(words, at, mask):
            return number, SINGLE
        if fields[which, SPACE] == SHARED:
            per, leg, reader = size >> scalars[SHIFT], warps[log, LEG], warps[log, READER]
            if not scalars[STORES if writes else LOADS] or not 0 < per <= _WIDEST:
                return number, SINGLE
            if not writes and _reread(
                words, at, fields, which, scalars[SHIFT], per, written, reads, reader, knowns, leg, previous
            ):
                continue
            count = _gather(words, at, mask, fields[which, BASE], scalars[SHIFT], per, cells, lanes)
            if not _note(
                fields[which], cells[:count], lanes[:count], written, reads, reader, warps[log, OWN],
                knowns[leg], threads, column, clock, lanewise, previous, rows[leg],
            ):  # fmt: skip
                return number, SINGLE
            continue
        low, high = np.int64(1) << 62, np.int64(0)
        for lane in range(32):
            if mask >> lane & 1:
                low, high = min(low, words[at + lane]), max(high, words[at + lane] + size)
        if low < scalars[STORED_END] and high > scalars[STORED]:
            return number, SINGLE
        array = len(arrays) - 1
        while array >= 0 and arrays[array, 0] > low:
            array -= 1
        if array < 0 or high > arrays[array, 1]:
            return number, SINGLE
        if not arrays[array, 2]:
            if writes:
                return number, SINGLE
            count = scalars[LISTS]
            listed[count, 0], listed[count, 1], listed[count, 2], listed[count, 3] = number, array, low, high
            scalars[LISTS] = count + 1
            continue
        if writes:
            if low < scalars[LOADED_END] and high > scalars[LOADED]:
                return number, SINGLE
            if low < scalars[MAPS_END] and high > scalars[MAPS]:
                return number, SINGLE
        if fields[which, INCOHERENT] or size >> scalars[FAR_SHIFT] == 0 or high > scalars[COVERED]:
            return number, SINGLE
        if not fields[which, FIRST]:
            return number, UNNUMBERED
        count = _gather(words, at, mask, 0, 0, 1, cells, lanes)
        addresses, these, shift, own = cells[:count], lanes[:count], scalars[FAR_SHIFT], warps[log, FAR_OWN]
        if writes:
            done = claim(
                accessed, marks, _WEAK, _SEEN, addresses, size, shift, fields[which, FIRST], these, far_threads, own
            )  # fmt: skip
        else:
            done = reread(
                accessed, marks, _READ, _READ, addresses, size, shift, fields[which, FIRST], these, far_threads, own
            )  # fmt: skip
        if not done:
            return number, SINGLE
        if writes:
            scalars[LOW], scalars[HIGH] = min(scalars[LOW], low), max(scalars[HIGH], high)
    return end, DONE
