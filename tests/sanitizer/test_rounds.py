"""Batches of several warps, noted together at a barrier: the reports are those of each access by itself."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest

import tcemu.ptx
from tcemu.errors import OperandError, UndefinedBehaviour
from tcemu.machine.events import Accesses, By, Site
from tcemu.sanitizer import Report, Sanitizer, batches
from tcemu.sanitizer.clocks import Clocks

pytest.importorskip("numba")

HEAD = ".version 8.5\n.target sm_90a\n.address_size 64\n"
START = """
    .reg .pred %p<4>;  .reg .b32 %r<12>;  .reg .b64 %rd<6>;
    .shared .align 16 .b8 tile[2048];
    .shared .align 8 .b64 flag;
    ld.param.u64 %rd1, [out];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, tile;
    shr.u32 %r9, %r0, 5;
    mul.wide.u32 %rd2, %r0, 4;
    add.u64 %rd3, %rd1, %rd2;
    xor.b32 %r10, %r0, 1;
    mul.wide.u32 %rd2, %r10, 4;
    add.u64 %rd4, %rd1, %rd2;
"""


class Apart:
    """A sanitizer that gets each native access by itself."""

    def __init__(self):
        self.watch = Sanitizer("collect")
        self.follows, self.hears, self.once = self.watch.follows, self.watch.hears, self.watch.once

    def __call__(self, event):
        self.watch(event)


def kernel(body, parameters=".param .u64 out"):
    return tcemu.ptx.load(f"{HEAD}.visible .entry k({parameters})\n{{{START}{body}\n    ret;\n}}\n")["k"]


def place(register, stride, first):
    """%r<register> = the address of byte first + stride * thread, within the tile."""
    return (
        f"    mul.lo.u32 %r{register}, %r0, {stride};\n    add.u32 %r{register}, %r{register}, {first};\n"
        f"    and.b32 %r{register}, %r{register}, 2044;\n    add.u32 %r{register}, %r{register}, %r1;\n"
    )


def random_body(rng):
    """Loads and stores of all warps or of one, barriers and exits between them: some kernels race, others do not."""
    body = [place(2, 4, 0), place(3, 4, rng.choice([0, 4, 128])), place(4, rng.choice([0, 8]), 0)]
    flagged = rng.random() < 0.2
    if flagged:
        body.append(
            "    mov.u32 %r11, flag;\n    setp.eq.u32 %p2, %r0, 0;\n    @%p2 mbarrier.init.shared.b64 [%r11], 9999;"
        )
        body.append("    bar.sync 0;")
    steps = {
        "store": "st.shared.u32 [%r2], %r0;", "shifted": "st.shared.u32 [%r3], %r0;",
        "load": "ld.shared.u32 %r5, [%r3];", "same": "ld.shared.u32 %r5, [%r4];",
        "byte": "ld.shared.u8 %r5, [%r3];", "far": "ld.global.u32 %r6, [%rd1];",
        "store far": "st.global.u32 [%rd1], %r5;", "own far": "st.global.u32 [%rd3], %r5;",
        "neighbour's": "ld.global.u32 %r6, [%rd4];", "shuffle": "shfl.sync.bfly.b32 %r5, %r6, 1, 31, -1;",
    }  # fmt: skip
    for _ in range(rng.randrange(3, 10)):
        if rng.random() < 0.45:
            body.append("    bar.sync 0;")
            continue
        if flagged and rng.random() < 0.2:
            lanes = rng.choice(["", f"setp.lt.u32 %p3, %r0, {rng.randrange(1, 96)};\n    @%p3 "])
            body.append(f"    {lanes}mbarrier.arrive.shared.b64 %rd5, [%r11];")
            continue
        if rng.random() < 0.1:
            which = rng.choice([f"%r9, {rng.randrange(3)}", "%r0, 37"])
            body.append(f"    setp.eq.u32 %p1, {which};\n    @%p1 exit;")
            continue
        alone = rng.random() < 0.25
        if alone:
            body.append(f"    setp.eq.u32 %p1, %r9, {rng.randrange(3)};")
        names = rng.choices([*steps], [6, 1, 6, 3, 1, 3, 1, 2, 3, 3], k=rng.randrange(1, 4))
        body += [f"    {'@%p1 ' * alone}{steps[name]}" for name in names]
    return "\n".join(body)


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels(seed):
    """Three warps, in the order of warps and in random ones."""
    k = kernel(random_body(random.Random(seed)))
    for order in ({}, {"seed": seed}, {"policy": "random", "seed": seed}):
        watch, apart = Sanitizer("collect"), Apart()
        k(2, 96, np.zeros(256, np.uint32), sanitizer="off", observers=[watch, apart], **order)
        assert [str(each) for each in watch.reports] == [str(each) for each in apart.watch.reports]
        assert [each.count for each in watch.reports] == [each.count for each in apart.watch.reports]


def test_warps_are_noted_together(monkeypatch):
    """One call for all warps on their way past barriers and, at last, to their end, in a right kernel."""
    together, several, onwards = [], batches.Batches.several, batches.Batches.onwards

    def counted(self, logs, passes):
        done = several(self, logs, passes)
        together.append((len(logs.warps), done))
        return done

    def counted_onwards(self, logs, meetings):
        done = onwards(self, logs, meetings)
        together.append((done[0], len(meetings)))
        return done

    monkeypatch.setattr(batches.Batches, "several", counted)
    monkeypatch.setattr(batches.Batches, "onwards", counted_onwards)
    k = kernel(place(2, 4, 0) + "\n    st.shared.u32 [%r2], %r0;\n    bar.sync 0;\n    ld.shared.u32 %r5, [%r2];" * 4)
    k(1, 128, np.zeros(256, np.uint32), sanitizer="raise")
    assert together[-1] == (4 * 4, 3)  # the first arrival of a block finds out who receives such events


def test_what_was_put_off_is_reported_where_all_warps_meet(monkeypatch):
    """As the first of these barriers would have made the sanitizer do."""
    seen, onwards = [], batches.Batches.onwards

    def put_off(self, logs, meetings):
        self.block.later(Report("barrier-threads", "it was put off", By(0, 0, 1, Site("k.ptx", 1, "k"))))
        done = onwards(self, logs, meetings)
        seen.append([each.message for each in watch.reports])
        return done

    monkeypatch.setattr(batches.Batches, "onwards", put_off)
    k = kernel(place(2, 4, 0) + "\n    st.shared.u32 [%r2], %r0;\n    bar.sync 0;\n    ld.shared.u32 %r5, [%r2];" * 4)
    watch = Sanitizer("collect")
    k(1, 128, np.zeros(256, np.uint32), sanitizer="off", observers=[watch])
    assert seen == [["it was put off"]]


def test_a_race_comes_before_an_error_behind_it():
    """Two warps write the same bytes; the second then names a barrier that does not exist."""
    body = "    st.shared.u32 [%r1], %r9;\n    mul.lo.u32 %r2, %r9, 99;\n    barrier.sync %r2;"
    k, out = kernel(body), np.zeros(32, np.uint32)
    with pytest.raises(OperandError, match="got 99"):
        k(1, 64, out, sanitizer="off")
    with pytest.raises(UndefinedBehaviour, match="race"):
        k(1, 64, out)
    watch = Sanitizer("collect")
    with pytest.raises(OperandError, match="got 99"):
        k(1, 64, out, sanitizer="off", observers=[watch])
    assert "shared-race" in {each.rule for each in watch.reports}


def test_a_batch_that_waits_keeps_its_log():
    """Native code uses the log again for the next warp."""
    seen = []
    watch, apart = Sanitizer("collect"), Apart()

    def spoil(event):
        if isinstance(event, Accesses):
            seen.append(len(event.log))
            event.log[:] = 0

    spoil.takes = lambda event: True
    body = place(2, 4, 0) + "    st.shared.u32 [%r2], %r0;\n    bar.sync 0;\n" + place(3, 4, 4)
    k = kernel(body + "    st.shared.u32 [%r3], %r0;\n    ld.shared.u32 %r5, [%r2];\n    bar.sync 0;")
    k(1, 64, np.zeros(32, np.uint32), sanitizer="off", observers=[apart])
    k(1, 64, np.zeros(32, np.uint32), sanitizer="off", observers=[watch, spoil])
    assert seen
    assert [each.rule for each in watch.reports] == [each.rule for each in apart.watch.reports]
    assert "shared-race" in {each.rule for each in watch.reports}


@pytest.mark.parametrize("threads", [32, 70, 128])
def test_warps_that_wait_meet(threads):
    """What they then know is what they would have released one after the other."""
    rng, clocks = random.Random(threads), Clocks(threads)
    warps = range(clocks.warps)
    for _ in range(20):
        warp = rng.choice(warps)
        rng.choice([
            lambda warp: clocks.fence(warp, rng.choice([clocks.present[warp], 5])),
            lambda warp: clocks.learn(warp, rng.choice([clocks.present[warp], 1]), rng.choice([0, 1, 2]), 7),
            lambda warp: clocks.acquire(warp, clocks.present[warp], clocks.view(0, clocks.present[0])),
        ])(warp)  # fmt: skip
        views = np.maximum.reduce([clocks.view(each, clocks.present[each]) for each in warps])
        again = copy.deepcopy(clocks)
        for each in warps:
            again.come(each)
        assert again.met([*warps]).tolist() == views.tolist()


@pytest.mark.parametrize("threads", [32, 70, 128])
def test_a_way_of_several_legs(threads):
    """What warps know if all of them meet again and again is told at once, and one after the other."""
    rng, clocks = random.Random(threads), Clocks(threads)
    for warp in range(clocks.warps):
        clocks.fence(warp, rng.choice([clocks.present[warp], 5]))
        clocks.loads[warp] = rng.random() < 0.5
    everyone = [*range(clocks.warps)]
    row = np.maximum.reduce([clocks.view(each, clocks.present[each]) for each in everyone])
    for warp in everyone:
        clocks.pass_barrier(warp, row)
    loaded = np.array([[rng.random() < 0.5 for _ in everyone] for _ in range(6)])
    way, legs = copy.deepcopy(clocks).way(loaded.copy()), [copy.deepcopy(clocks)]
    for leg in range(5):
        here = copy.deepcopy(legs[-1])
        for warp in everyone:
            here.loads[warp] |= bool(loaded[leg, warp])
            here.come(warp)
            here.meet(warp)
        met = here.met(everyone)
        for warp in everyone:
            here.pass_barrier(warp, met)
        legs.append(here)
    for leg, here in enumerate(legs):
        assert way.rows[leg].tolist() == here.rows[0].tolist()
        assert way.times[leg].tolist() == here.time
        gone = copy.deepcopy(clocks)
        gone.go(way, leg)
        assert (gone.time, gone.loads, gone.all_issued) == (here.time, here.loads, here.all_issued)
        assert [each.tolist() for each in gone.rows] == [each.tolist() for each in here.rows]
