"""The marks of a few cells: numpy and the kernels agree, and a claim is what the long way does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import examples

from tcemu.sanitizer import marks as plain
from tcemu.sanitizer.global_shadow import GlobalShadow

kernels = pytest.importorskip("tcemu.kernels.marks")
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


def shadow_of(size):
    """The shadow of one array, whose reads need no records."""
    return GlobalShadow([(0, size, "x")], lambda marks: marks, lambda line, _: line.lanes)


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


@examples(60)
@given(st.sets(st.integers(0, CELLS - 1), max_size=12), CHOSEN, st.integers(0, 2))
def test_claim(used, cells, parts):
    """Cells of 16 bytes, and accesses to one, two or four of them."""
    size = 16 << parts
    addresses = 16 * np.unique(cells[cells <= CELLS - (1 << parts)] >> parts << parts)
    lanes = np.arange(len(addresses))
    reached = (addresses[:, None] // 16 + np.arange(1 << parts)).reshape(-1)
    free = used.isdisjoint(reached.tolist())
    for module in (plain, kernels):
        accessed, marks = np.isin(np.arange(CELLS), list(used)), np.zeros(CELLS, np.int64)
        before = accessed.copy()
        assert module.claim(accessed, marks, addresses, size, 4, 320, lanes) == free
        if free:
            assert np.array_equal(marks[reached], 320 + lanes.repeat(1 << parts))
            assert np.array_equal(accessed, before | np.isin(np.arange(CELLS), reached))
        else:
            assert np.array_equal(accessed, before)
            assert not marks.any()


@pytest.mark.parametrize("module", [plain, kernels])
def test_a_claimed_write_is_noted_like_any_other(module, monkeypatch):
    monkeypatch.setattr("tcemu.sanitizer.global_shadow.fastest", lambda: module)
    random = np.random.default_rng(5)
    for _ in range(20):
        quick, slow = shadow_of(1 << 16), shadow_of(1 << 16)
        for number, size in enumerate(random.choice([4, 8, 16, 32], 40).tolist(), 1):
            addresses = size * random.choice((1 << 15) // size, 32, replace=False)
            lanes, strong = np.arange(32), bool(random.integers(2))
            extent = int(addresses.min()), int(addresses.max()) + size
            cells, per = slow.cells(addresses, size, extent[1])
            free = slow.known(cells) is None
            fits = size >= quick.cell and extent[1] <= quick.cell * len(quick._accessed)
            assert quick.claim(addresses, size, 32 * number, lanes, strong, extent) == (free and fits)
            if not (free and fits):
                own, _ = quick.cells(addresses, size, extent[1])
                quick.write(own, 32 * number + lanes.repeat(per), strong, extent)
            slow.write(cells, 32 * number + lanes.repeat(per), strong, extent)
        every, _ = slow.cells(np.arange(0, 1 << 15, 4), 4, 1 << 15)
        assert np.array_equal(quick.marks(quick.cells(np.arange(0, 1 << 15, 4), 4, 1 << 15)[0]), slow.marks(every))
        assert quick.untouched(0, 1 << 16) == slow.untouched(0, 1 << 16)
