"""The marks of a few cells: numpy and the kernels agree, and a claim is what the long way does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import examples

from tcemu import parse
from tcemu.sanitizer import marks as plain
from tcemu.sanitizer.global_shadow import ACCESSES, WRITES, GlobalShadow, Line
from tcemu.sanitizer.records import NOBODY

kernels = pytest.importorskip("tcemu.native.shadow")
CELLS = 64
CHOSEN = st.lists(st.integers(0, CELLS - 1), min_size=1, max_size=40).map(np.array)
RUNS = st.tuples(st.integers(0, CELLS - 1), st.integers(1, 40)).map(lambda run: np.arange(run[0], min(sum(run), CELLS)))


def threads_of(mine):
    """What stands for the threads of each record: 7 for those of these lanes."""
    return np.where(np.isin(np.arange(16), list(mine)), 7, -1)


def others(marks, cells, lanes, mine):
    """Of the marks of cells, those that were not made by the same lane: (record, lane)."""
    for mark, lane in zip(marks[cells].tolist(), lanes.tolist(), strict=True):
        if not (mark >> 5 in mine and mark & 31 == lane):
            yield mark >> 5, mark & 31


@examples(60)
@given(st.lists(st.integers(0, 3), min_size=CELLS, max_size=CELLS).map(np.array), CHOSEN)
def test_put(marks, cells):
    there = marks[cells]
    for module in (plain, kernels):
        after = marks.copy()
        module.put(after, cells, 99)
        assert np.array_equal(after == 99, np.isin(np.arange(CELLS), cells))
        assert tuple(module.latest(marks, cells)) == (there.max(), there.min())
        module.put_each(after, cells, 320, cells)
        assert np.array_equal(after[cells], 320 + cells)


@examples(60)
@given(st.lists(st.integers(0, 15), min_size=CELLS, max_size=CELLS).map(np.array), CHOSEN, st.sets(st.integers(0, 15)))
def test_other(records, cells, ended):
    """It finds a record that is not known to have ended, if there is one."""
    known = np.isin(np.arange(16), list(ended))
    unknown = {*records[cells].tolist()} - ended
    for module in (plain, kernels):
        found = module.other(32 * records + 7, cells, known)
        assert found in unknown if unknown else found == -1


@examples(60)
@given(
    st.lists(st.integers(0, 5), min_size=CELLS, max_size=CELLS).map(np.array),
    st.lists(st.integers(0, 5), min_size=CELLS, max_size=CELLS).map(np.array),
    CHOSEN,
    st.sets(st.integers(1, 5), min_size=3),
    st.sets(st.integers(1, 5), max_size=3),
    st.booleans(),
)
def test_load(written, reads, cells, ended, mine, needed):
    """It notes a load, of one cell by several lanes, too, unless a cell has no write or one of no known record."""
    known = np.isin(np.arange(16), [0, *ended])
    threads, lanes, marks = threads_of(mine), np.arange(len(cells)) % 32, 32 * written + np.arange(CELLS) % 3
    unknown = {record for record, *_ in others(marks, cells, lanes, mine)} - ended - {0}
    blind = needed and not marks[cells].all()
    for module in (plain, kernels):
        after = 32 * reads
        found = module.load(marks, after, cells, known, 320, lanes, needed, threads, 7)
        if found >= 0:
            assert found in unknown or (found == 0 and blind)
            assert np.array_equal(after, 32 * reads)
        else:
            assert not blind
            assert not unknown
            assert -1 - found == 32 * reads[cells].max()
            expected = 32 * reads
            expected[cells] = 320 + lanes
            assert np.array_equal(after, expected)


@examples(60)
@given(
    st.lists(st.integers(0, 5), min_size=CELLS, max_size=CELLS).map(np.array),
    st.lists(st.integers(0, 5), min_size=2 * CELLS, max_size=2 * CELLS).map(np.array),
    CHOSEN,
    st.sets(st.integers(1, 5), min_size=2),
    st.sets(st.integers(1, 5), max_size=3),
    st.integers(0, 2),
)
def test_store(written, reads, cells, ended, mine, readers):
    """It notes a store unless a write, or the latest read of a reader, is neither known nor of the same lane."""
    known, reads = np.isin(np.arange(16), [0, *ended]), 32 * reads.reshape(2, CELLS)[:readers] + np.arange(CELLS) % 3
    threads, lanes, marks = threads_of(mine), np.arange(len(cells)) % 32, 32 * written + np.arange(CELLS) % 3
    unknown = {record for record, *_ in others(marks, cells, lanes, mine)} - ended - {0}
    for row in reads:
        if row[cells].max() >> 5 not in {0, *ended}:
            unknown |= {record for record, *_ in others(row, cells, lanes, mine)} - ended - {0}
    for module in (plain, kernels):
        after = marks.copy()
        found = module.store(after, reads, cells, known, 320, lanes, threads, 7)
        expected = marks.copy()
        if found >= 0:
            assert unknown
            assert not known[found]
        else:
            assert not unknown
            assert -1 - found == marks[cells].max()
            expected[cells] = 320 + lanes
        assert np.array_equal(after, expected)


@examples(60)
@given(
    st.lists(st.integers(0, 3), min_size=CELLS, max_size=CELLS).map(np.array),
    st.lists(st.integers(0, 5), min_size=2 * CELLS, max_size=2 * CELLS).map(np.array),
    CHOSEN.map(np.unique) | RUNS,
    st.sets(st.integers(1, 5), min_size=2),
    st.sets(st.integers(1, 5), max_size=2),
    st.integers(0, 2),
)
def test_read_and_fill(written, reads, cells, ended, by_lane, readers):
    """They note what a copy reads or writes, unless a write is lanewise or an access that matters is not known."""
    records = np.arange(16)
    known, lanewise = np.isin(records, [0, *ended]), np.isin(records, list(by_lane)).astype(np.int64)
    reads, there = reads.reshape(2, CELLS), {*written[cells].tolist()}
    wrong = there & by_lane | there - ended - {0}
    late = {*reads[:readers, cells].max(axis=1, initial=0).tolist()} - ended - {0}
    for module in (plain, kernels):
        after, expected = 32 * reads[0], 32 * reads[0]
        found = module.read(32 * written, after, cells, known, lanewise, 320)
        if found >= 0:
            assert found in wrong | ({0} & there)
        else:
            assert not wrong | ({0} & there)
            assert -1 - found == 32 * reads[0, cells].max()
            expected[cells] = 320
        assert np.array_equal(after, expected)
        after, expected = 32 * written, 32 * written
        found = module.fill(after, 32 * reads[:readers], cells, known, lanewise, 320)
        if found >= 0:
            assert found in wrong | late
        else:
            assert not wrong | late
            assert -1 - found == 32 * written[cells].max()
            expected[cells] = 320
        assert np.array_equal(after, expected)


@examples(60)
@given(CHOSEN)
def test_distinct(cells):
    for module in (plain, kernels):
        assert module.distinct(cells) == (len(np.unique(cells)) == len(cells))


@examples(60)
@given(CHOSEN, st.integers(0, 3))
def test_units(addresses, shift):
    for module in (plain, kernels):
        assert module.units(addresses, shift).tolist() == sorted({address >> shift for address in addresses.tolist()})


@examples(60)
@given(CHOSEN, st.integers(1, 4))
def test_runs(addresses, size):
    """They hold exactly the bytes, with a gap before the next; addresses that do not ascend have none."""
    ascending = np.unique(addresses)
    held = {byte for address in ascending.tolist() for byte in range(address, address + size)}
    for module in (plain, kernels):
        first, end = module.runs(ascending, size).tolist()
        assert {byte for low, high in zip(first, end, strict=True) for byte in range(low, high)} == held
        assert all(low > high for high, low in zip(end, first[1:], strict=False))
        assert module.runs(addresses, size).size == (2 * len(first) if (np.diff(addresses) > 0).all() else 0)


ROWS = 3
MARKS = st.lists(st.integers(1, 15 * 32 + 31), min_size=ROWS, max_size=ROWS)


@examples(100)
@given(
    st.dictionaries(st.integers(0, CELLS - 1), MARKS, max_size=12),
    CHOSEN,
    st.integers(0, 2),
    st.sets(st.integers(1, 15)),
    st.integers(1, ROWS),
    st.booleans(),
)
def test_claim_and_reread(used, cells, parts, mine, rows, by_lanes):
    """Cells of 16 bytes, and accesses to one, two or four of them; judged by a loop over cells."""
    size, own = 16 << parts, threads_of(mine)
    addresses = 16 * np.unique(cells[cells <= CELLS - (1 << parts)] >> parts << parts)
    lanes = np.arange(len(addresses)) % 32
    reached = [(at // 16 + i, lane) for at, lane in zip(addresses, lanes, strict=True) for i in range(1 << parts)]
    accessed, marks = np.zeros(CELLS, bool), np.zeros((ROWS + 1, CELLS), np.int64)
    for cell, given_marks in used.items():
        accessed[cell], marks[:ROWS, cell] = True, given_marks
    if by_lanes:  # by the lanes that come back
        for cell, lane in reached:
            marks[:, cell] = np.where(marks[:, cell], marks[:, cell] & ~31 | lane, 0)
    free = all(
        not mark or (own[mark >> 5] == 7 and mark & 31 == lane)
        for cell, lane in reached
        for mark in marks[:rows, cell].tolist()
    )
    for module in (plain, kernels):
        for reads in (False, True):
            seen, found = accessed.copy(), marks.copy()
            expected_seen, expected = accessed.copy(), marks.copy()
            row, note = (ROWS - 1, module.reread) if reads else (0, module.claim)
            for cell, lane in reached if free else ():
                before = marks[row, cell]
                if reads and before and own[before >> 5] != 7:
                    expected[row + 1, cell] = before
                expected_seen[cell], expected[row, cell] = True, 320 + lane
            assert note(seen, found, row, rows, addresses, size, 4, 320, lanes, own, 7) == free
            assert np.array_equal(seen, expected_seen)
            assert np.array_equal(found, expected)


@pytest.mark.parametrize("module", [plain, kernels])
def test_what_is_noted_quickly_is_noted_like_anything_else(module, monkeypatch):
    """Three warps write and read, now and then what they have accessed before."""
    monkeypatch.setattr("tcemu.sanitizer.global_shadow.fastest", lambda: module)
    random, lanes, threads, noted = np.random.default_rng(5), np.arange(32), np.arange(41) % 3, 0
    for _ in range(40):
        quick, slow = (
            GlobalShadow([(0, 1 << 18, "x")], lambda: threads, lambda line, _: 32 * line.number + lanes)
            for _ in range(2)
        )
        places = {}
        for number, size in enumerate(random.choice([4, 8, 16, 32], 40).tolist(), 1):
            some = size * random.choice((1 << 17) // size, 32, replace=False)
            addresses = places.setdefault((number % 3, size), some) if random.integers(2) else some
            strong, reads, own = bool(random.integers(2)), bool(random.integers(2)), number % 3
            extent = int(addresses.min()), int(addresses.max()) + size
            cells, per = slow.cells(addresses, size, extent[1])
            there = slow.marks(cells, WRITES if reads else ACCESSES)
            same = (threads[there >> 5] == own) & (there & 31 == lanes.repeat(per))
            free = bool(((there == 0) | same).all())
            fits = size >= quick.cell and extent[1] <= quick.cell * len(quick._accessed)
            read = Line(NOBODY, parse("ld.global.b32"), size, lanes, number), addresses.tobytes(), 0
            if reads:
                done = quick.reread(addresses, size, 32 * number, lanes, extent[1], own)
            else:
                done = quick.claim(addresses, size, 32 * number, lanes, strong, extent, own)
            assert done == (free and fits)
            for shadow in [slow] if done else [slow, quick]:
                mine, per = shadow.cells(addresses, size, extent[1])
                if reads:
                    shadow.note(read)
                else:
                    shadow.write(mine, 32 * number + lanes.repeat(per), strong, extent)
            noted += done
        every, mine = (shadow.cells(np.arange(0, 1 << 17, 4), 4, 1 << 17)[0] for shadow in (slow, quick))
        assert np.array_equal(quick.marks(mine), slow.marks(every))
        assert quick.untouched(0, 1 << 18) == slow.untouched(0, 1 << 18)
    assert noted > 200
