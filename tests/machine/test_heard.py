"""Observers that do not need every event of registers, and the sanitizer, which needs them from the first wgmma on."""

from contextlib import suppress

import numpy as np

import tcemu
from tcemu.errors import TcemuError
from tcemu.machine import events
from tcemu.machine.launch import launch
from tcemu.sanitizer import Sanitizer
from tcemu.sanitizer.rules import BYTES, EXAMPLES


class Asked:
    """An observer that begins to need accesses to registers when the kernel has reached its barrier."""

    def __init__(self):
        self.touched, self.needs, self.asked = [], False, 0

    def __call__(self, event):
        self.needs |= isinstance(event, events.BarrierCompleted)
        if isinstance(event, events.Touched):
            self.touched.append((event.writes, event.unwritten))

    def hears(self, kind):
        self.asked += 1
        assert kind is events.Touched
        return self.needs


def kernel(warp):
    written, empty = warp.registers(1, fill=1), warp.registers(1)
    _ = written + 1, empty[:, 0]
    warp.bar_sync()
    _ = written + 1
    written[...] = 2


def test_a_read_of_what_is_unwritten_is_always_told():
    observer = Asked()
    tcemu.launch(kernel, observers=(observer,), sanitizer="off")
    assert observer.touched == [(False, (0,)), (False, ()), (True, ())]


def test_an_observer_that_has_needed_them_is_not_asked_again():
    observer = Asked()
    tcemu.launch(kernel, observers=(observer,), sanitizer="off")
    asked = observer.asked

    def more(warp):
        kernel(warp)
        kernel(warp)

    observer.needs = False
    observer.asked = 0
    tcemu.launch(more, observers=(observer,), sanitizer="off")
    assert observer.asked <= asked


def test_an_observer_that_does_not_say_hears_of_all():
    heard = []
    tcemu.launch(kernel, observers=(Asked(), heard.append), sanitizer="off")
    touched = [(each.writes, each.unwritten) for each in heard if isinstance(each, events.Touched)]
    assert touched == [(True, ()), (False, ()), (False, (0,)), (False, ()), (True, ())]


class Once(list):
    """An observer of accesses to registers that needs no repetitions."""

    once = frozenset({events.Touched})
    __call__ = list.append


def accesses(heard):
    """By line from the first of them: which registers are read or written, by how many lanes."""
    touched = [each for each in heard if isinstance(each, events.Touched)]
    first = min(each.by.site.line for each in touched)
    return [
        (each.by.site.line - first, "writes" if each.writes else "reads", each.which, each.by.active.bit_count())
        for each in touched
    ]


def repeating(warp):
    values = warp.registers(2, fill=1)
    for turn in range(6):
        _ = values[:, turn % 2], values[:, 0]
        warp.st_shared(0, 1)  # as frequent as these accesses
        values[:, 0] = 1
    warp.fence_proxy_async()
    for lanes in (32, 32, 16, 16):
        with warp.only(warp.laneid < lanes):
            _ = values + values[:, :1]


def test_an_observer_may_do_without_repetitions():
    heard = Once()
    tcemu.launch(repeating, observers=(heard,), sanitizer="off", shared=4)
    first, second, write = (2, "reads", (0,), 32), (2, "reads", (1,), 32), (4, "writes", (0,), 32)
    loop = [(0, "writes", (0, 1), 32), first, write, second, first, second, first, second, first]
    assert accesses(heard)[: len(loop)] == loop
    after = {(8, "reads", which, lanes) for which in ((0,), (0, 1)) for lanes in (32, 16)}
    assert {*accesses(heard)[len(loop) :]} == after


def test_an_observer_that_needs_repetitions_gets_them():
    alone, beside = [], []
    tcemu.launch(repeating, observers=(alone.append,), sanitizer="off", shared=4)
    tcemu.launch(repeating, observers=(Once(), beside.append), sanitizer="off", shared=4)
    assert accesses(alone) == accesses(beside)
    assert len(accesses(alone)) == 1 + 6 * 3 + 4 * 2


def test_the_sanitizer_needs_them_from_the_first_wgmma_on():
    watch, needed = Sanitizer("collect"), []

    def multiplying(warp):
        needed.append(watch.hears(events.Touched))
        warp.wgmma_fence()
        needed.append(watch.hears(events.Touched))

    tcemu.launch(multiplying, 1, 128, observers=(watch,), sanitizer="off")
    assert needed == [False, *[True] * 7]


def test_the_sanitizer_finds_the_same_without_the_others(row):
    """A bound method does not declare its needs, and so receives everything."""
    about_registers = [rule for rule in EXAMPLES if rule.startswith(("wgmma", "uninitialised-registers"))]
    assert len(about_registers) > 6
    for rule in about_registers:
        found = []
        for watch in (Sanitizer("collect"), Sanitizer("collect")):
            observer = watch.__call__ if found else watch
            with suppress(TcemuError):
                launch(
                    EXAMPLES[rule].kernel, args=(np.zeros(BYTES, np.uint8),), observers=(observer,),
                    **EXAMPLES[rule].launch,
                )  # fmt: skip
            found.append([str(report) for report in watch.reports])
        with row(rule):
            assert found[0] == found[1]
            assert found[0]


def test_issued_is_told_of_the_instructions_that_an_observer_follows():
    class Barriers:
        def __init__(self):
            self.found, self.asked = [], []

        def __call__(self, event):
            if isinstance(event, events.Issued):
                self.found.append(event.instruction.opcode)

        def follows(self, instruction, whole):
            self.asked.append((instruction.opcode, whole))
            return whole and "bar" in instruction.opcode

    def twice(warp):
        for _ in range(2):
            warp.st_shared(4 * warp.threads, 1)
            warp.bar_sync()

    some, every = Barriers(), []
    tcemu.launch(twice, shared=128, observers=(some,), sanitizer="off")
    assert len(some.found) == 2
    assert all("bar" in opcode for opcode in some.found)
    assert len(some.asked) == len(set(some.asked)) == 4
    tcemu.launch(twice, shared=128, observers=(Barriers(), every.append), sanitizer="off")
    assert sum(isinstance(event, events.Issued) for event in every) == 4
