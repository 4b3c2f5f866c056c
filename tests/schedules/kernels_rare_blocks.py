"""Kernels between blocks and in clusters that are clean in the default order and fail in a rare one, and their twins.

Every kernel is called as kernel(warp, out, mended), with 64 words in `out`. All accesses are strong and reach far
enough, so that what is wrong is the protocol, not the order of memory: it takes an order of blocks to show it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

BETWEEN = []


@dataclass(frozen=True)
class Row:
    """A kernel, its grid of warps, and what `out` must hold afterwards."""

    kernel: Callable
    check: Callable | None
    grid: int
    cluster: int | None

    @property
    def name(self):
        return self.kernel.__name__

    def arguments(self, mended):
        return self.kernel, self.grid, 32, (np.zeros(64, np.uint32), mended)

    @property
    def options(self):
        return {"shared": 64, "target": "sm_90a", "cluster": self.cluster}


def between(grid=2, check=None, cluster=None):
    def add(kernel):
        BETWEEN.append(Row(kernel, check, grid, cluster))
        return kernel

    return add


def leader(warp):
    return warp.only(warp.laneid == 0)


def load(warp, place):
    return int(warp.ld_global(place, order="acquire.gpu")[0, 0])


def store(warp, place, value):
    warp.st_global(place, value, order="release.gpu")


def add(warp, place, value=1):
    """The old word."""
    return int(warp.atom_global("add.u32", place, value, order="acq_rel.gpu")[0, 0])


def holds(place, value):
    def check(out, mended):
        assert out[place] == value, f"out[{place}] is {out[place]}, not {value}"

    return check


@between(grid=3, check=holds(0, 3))
def an_increment_in_two_steps(warp, out, mended):
    """Each of the two steps is strong; together they are not an atomic operation."""
    with leader(warp):
        if mended:
            add(warp, out.at(0))
        else:
            store(warp, out.at(0), load(warp, out.at(0)) + 1)


@between(grid=3)
def a_grid_barrier_that_reads_the_generation_too_late(warp, out, mended):
    """The last block may have opened the barrier before the generation is read, which then never changes."""
    count, generation = out.at(0), out.at(1)
    with leader(warp):
        before = load(warp, generation) if mended else None
        if add(warp, count) == 2:
            store(warp, count, 0)
            add(warp, generation)
            return
        if before is None:
            before = load(warp, generation)
        while load(warp, generation) == before:
            warp.nanosleep(20)


@between(grid=3, check=holds(8, 1))
def the_last_block_is_told_by_a_second_look(warp, out, mended):
    """Each block counts and then reads the counter: two of them may see the last number."""
    with leader(warp):
        seen = add(warp, out.at(0)) + 1
        if not mended:
            seen = load(warp, out.at(0))
        if seen == 3:
            add(warp, out.at(8))


@between(grid=3, check=holds(8, 1))
def whoever_comes_first_prepares(warp, out, mended):
    """The state is read and then changed: two blocks may find that none has begun."""
    state = out.at(0)
    with leader(warp):
        if mended:
            first = warp.atom_global("cas.b32", state, 0, 1, order="acq_rel.gpu")[0, 0] == 0
        elif first := load(warp, state) == 0:
            store(warp, state, 1)
        if first:
            add(warp, out.at(8))
            store(warp, state, 2)
        while load(warp, state) != 2:
            warp.nanosleep(20)


@between(grid=3, check=holds(16, 0))
def a_queue_that_is_looked_at_before_it_is_taken_from(warp, out, mended):
    """Two items for three blocks: another block may take the last one between the look and the addition."""
    with leader(warp):
        if not mended and load(warp, out.at(0)) >= 2:
            return
        item = add(warp, out.at(0))
        if mended and item >= 2:
            return
        if item >= 2:
            add(warp, out.at(16))  # works on an item that is not there


@between(check=holds(8, 3), cluster=2)
def a_mailbox_in_the_peer_without_an_answer(warp, out, mended):
    """Two messages through one word of distributed shared memory: the second may overwrite the first."""
    with leader(warp):
        warp.st_shared(0, 0)
        warp.st_shared(4, 0)
    meet(warp)
    with leader(warp):
        if warp.cluster_ctarank == 0:
            for message in (1, 2):
                exchange(warp, warp.mapa(0, 1), message)
                warp.nanosleep(1000)  # which is no answer
                while mended and message == 1 and not read(warp, 4):
                    warp.nanosleep(20)
        else:
            total = took = 0
            while took != 2:
                took = exchange(warp, 0, 0, near=True)
                total += took
                if took == 1:
                    exchange(warp, warp.mapa(4, 0), 1)
                warp.nanosleep(20)
            store(warp, out.at(8), total)
    meet(warp)


def meet(warp):
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()


def exchange(warp, place, value, near=False):
    """The old word of the block itself (near) or of its peer."""
    atom = warp.atom_shared if near else warp.atom_shared_cluster
    return int(atom("exch.b32", place, value, order="acq_rel.cluster")[0, 0])


def read(warp, place):
    return int(warp.ld_shared(place, order="acquire.cluster")[0, 0])
