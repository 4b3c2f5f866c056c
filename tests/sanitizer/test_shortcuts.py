"""The sanitizer's shortcuts, once for all or for many marks together, find what it would find one by one."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from quick import examples

from tcemu.instructions.table import FAMILIES
from tcemu.machine.events import By, Site
from tcemu.sanitizer import block
from tcemu.sanitizer.clocks import Clocks
from tcemu.sanitizer.records import Kind, Records
from tcemu.sanitizer.rules import fragments
from tcemu.sanitizer.wgmma_state import Warp

WARPS, FULL = 2, (1 << 32) - 1
STEPS = ("store", "load", "copy", "end", "sync", "fence", "meet", "tell", "exit")


def history(steps):
    """The clocks and records of two warps after some steps, and a mark of each access by each of its lanes."""
    clocks = Clocks(32 * WARPS)
    records, agent, count, marks = Records(clocks), clocks.agent(), 0, [0]
    for line, (step, warp) in enumerate(steps):
        by = By(0, warp, FULL, Site("kernel.py", line, "kernel"))
        if step in ("store", "load"):
            record = records.ordinary(by, step, Kind.ORDINARY, step == "store")
            marks += range(32 * record, 32 * record + 32)
        elif step == "copy":
            marks.append(32 * records.agent(by, step, Kind.BULK, agent, count))
        elif step == "end":
            count += 1
            clocks.learn(warp, FULL, agent, count)
        elif step == "tell":
            clocks.acquire(1 - warp, FULL, clocks.release(warp, FULL))
        elif step == "meet":
            clocks.meet(warp)
        elif step == "exit":  # of some lanes
            clocks.present[warp] &= 0xFFFF
        else:
            getattr(clocks, step)(warp, FULL)
        for each, lanes in product(range(WARPS), (FULL, 1, 0xFFFF, FULL)):
            assert np.array_equal(clocks.view(each, lanes), clocks._view(each, lanes))
    return clocks, records, np.array(marks)


@examples(50)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, WARPS - 1)), max_size=30))
def test_what_is_known_to_have_ended(steps):
    clocks, records, marks = history(steps)
    for row in clocks.rows:
        for _ in range(2):  # the second time it has been found out
            for record in np.unique(marks >> 5):
                own = marks[marks >> 5 == record]
                assert records.ended(own, row) == (not records.unknown(own, row).any())
            assert records.ended(marks, row) == (not records.unknown(marks, row).any())


@examples(50)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, WARPS - 1)), max_size=30), st.booleans())
def test_many_marks_of_one_record(steps, fenced):
    clocks, records, marks = history(steps)
    for row in clocks.rows:
        for record in np.unique(marks >> 5):
            own = marks[marks >> 5 == record]
            many = np.resize(own, 100)
            one_by_one = [records.unknown(np.array([mark]), row, fenced)[0] for mark in many]
            assert records.unknown(many, row, fenced).tolist() == one_by_one


BANKS = [(0, 4), (4, 3), (7, 1)]  # (first register, how many)
TOUCHES = st.lists(
    st.one_of(
        st.just("fence"),
        st.tuples(st.sampled_from(BANKS), st.lists(st.integers(0, 3), min_size=1, max_size=3), st.booleans()),
    ),
    max_size=25,
)


@examples(100)
@given(TOUCHES, st.frozensets(st.integers(0, 7), max_size=4))
def test_accesses_to_registers(steps, asked):
    warp, since, before = Warp(fences=1), {}, set()
    for line, step in enumerate(steps):
        by = By(0, 0, FULL, Site("kernel.py", line, "kernel"))
        if step == "fence":
            warp.fence_touched()
            since, before = {}, set(since)
            continue
        (first, count), which, writes = step
        which = tuple(number % count for number in which)
        warp.touch(first, which, by, writes)
        since.update({first + number: (line, by, writes) for number in which})
    assert warp.fenced == before
    found = [since[number] for number in asked if number in since]
    assert warp.latest_touch(asked, [first for first, _ in BANKS]) == (max(found)[1:] if found else None)


def test_lines_at_multiples_of_the_coarsest_alignment_need_no_look_at_the_fragment():
    wanted = {
        fragments._alignment(instruction, 1 << 16)
        for family in FAMILIES
        if family.name in ("wmma.load", "wmma.store")
        for _, instruction in family.variants
    }
    assert max(wanted) == fragments._COARSE


def test_the_instructions_that_other_events_tell_of_are_followed_only_if_lanes_are_missing():
    found = {
        family.name
        for family in FAMILIES
        for _, instruction in family.variants
        if block.together(instruction, False) and not block.together(instruction, True)
    }
    assert found == block._REPORTED
