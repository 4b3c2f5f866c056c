"""Kernels that are clean in the default order and fail in a rare one, each with its mended twin.

What makes these orders rare is work: between two steps, warps compute for a while, and the failure needs one of them to
stand still at one place while another one computes. Warps that take turns at random hardly ever do.

Every kernel is called as kernel(warp, out, mended), with 64 words in `out`; what the twins differ in is what
`mended` decides. They synchronise well in every respect but one, so the reports that do not depend on the order have
nothing to say.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

RARE = []


@dataclass(frozen=True)
class Row:
    """A kernel, its block, and what `out` must hold afterwards."""

    kernel: Callable
    block: int = 64
    check: Callable | None = None

    @property
    def name(self):
        return self.kernel.__name__

    def arguments(self, mended):
        return self.kernel, 1, self.block, (np.zeros(64, np.uint32), mended)

    @property
    def options(self):
        return {"shared": 1024, "target": "sm_90a"}


def rare(block=64, check=None):
    def add(kernel):
        RARE.append(Row(kernel, block, check))
        return kernel

    return add


# ------------------------------------------------------------------------------------------------ what they share


def leader(warp):
    return warp.only(warp.laneid == 0)


def swap(warp, place, value, order="acq_rel"):
    """Lane 0 exchanges a word; the old one."""
    with leader(warp):
        return int(warp.atom_shared("exch.b32", place, value, order=order)[0, 0])


def add(warp, place, value, order="acq_rel"):
    """Lane 0 adds to a word; the old one."""
    with leader(warp):
        return int(warp.atom_shared("add.u32", place, value, order=order)[0, 0])


def swapped(warp, place, old, new, order="acq_rel"):
    """Lane 0 replaces `old` by `new`; whether the word was `old`."""
    with leader(warp):
        return int(warp.atom_shared("cas.b32", place, old, new, order=order)[0, 0]) == old


def load(warp, place, order="acquire"):
    with leader(warp):
        return int(warp.ld_shared(place, order=order)[0, 0])


def store(warp, place, value, order="release"):
    with leader(warp):
        warp.st_shared(place, value, order=order)


def start(warp, mbarriers=()):
    """Clear 512 bytes of shared memory, initialise mbarriers at 512 and on with these counts, and meet."""
    if warp.warpid == 0:
        for row in range(4):
            warp.st_shared(128 * row + 4 * warp.laneid, 0)
        with leader(warp):
            for number, count in enumerate(mbarriers):
                warp.mbarrier_init(512 + 8 * number, count)
            warp.fence_mbarrier_init()
    warp.bar_sync()


def compute(warp, operations=24):
    """Operations that affect no other warp."""
    for _ in range(operations):
        warp.activemask()


def arrive(warp, number):
    with leader(warp):
        warp.mbarrier_arrive(512 + 8 * number)


def wait(warp, number, parity):
    warp.mbarrier_wait(512 + 8 * number, parity)


# ------------------------------------------------------------------------------------------------ the kernels


@rare()
def a_lost_wake_up(warp, out, mended):
    """The sleeper checks, then announces that it sleeps: a warp that comes in between wakes nobody."""
    full, asleep = 0, 4
    start(warp, [1])
    if warp.warpid == 0:
        compute(warp)
        swap(warp, full, 1)
        if swap(warp, asleep, 0):
            arrive(warp, 0)
    elif mended:
        swap(warp, asleep, 1)
        if not load(warp, full) or not swap(warp, asleep, 0):
            wait(warp, 0, 0)
    elif not load(warp, full):
        swap(warp, asleep, 1)
        wait(warp, 0, 0)


def apart(out, mended):
    """No warp owns what another warp owns."""
    owned = out[out != 0].tolist()
    assert len(set(owned)) == len(owned), f"one node has two owners: {owned}"


@rare(check=apart)
def aba_in_a_free_list(warp, out, mended):
    """A pop that finds node 1 on top again does not see that node 2 has gone. The mended one counts the pushes."""
    head = 0
    start(warp)
    if warp.warpid == 0:
        with leader(warp):
            for node in range(5):
                warp.st_shared(4 * node, node + 1)  # word 0 is the head, word n is what follows node n
    warp.bar_sync()

    def pop():
        while True:
            held = load(warp, head)
            after = load(warp, 4 * (held & 255))
            if swapped(warp, head, held, (held & ~255) | after):
                return held & 255

    def push(node):
        while True:
            held = load(warp, head)
            store(warp, 4 * node, held & 255)
            if swapped(warp, head, held, (((held >> 8) + mended) << 8) | node):
                return

    if warp.warpid == 0:
        owned = pop(), pop()
    else:
        compute(warp)
        first, *owned = pop(), pop()
        push(first)
    with leader(warp):
        for number, node in enumerate(owned):
            warp.st_global(out.at(2 * warp.warpid + number), node)


@rare()
def the_last_stage_is_not_waited_for(warp, out, mended):
    """A warp that gets only one tile never reaches the wait inside the loop. Usually, each gets two of four."""
    start(warp)
    here, taken = 128 + 128 * warp.warpid, []
    while (tile := add(warp, 0, 1)) < 4:
        if taken:
            warp.cp_async_wait_group(0)
        taken.append(tile)
        warp.cp_async(here + 4 * warp.laneid, out.at(warp.laneid), 4)
        warp.cp_async_commit_group()
        compute(warp)
    if len(taken) > 1 or mended:
        warp.cp_async_wait_group(0)
    if taken:
        warp.ld_shared(here + 4 * warp.laneid)


@rare()
def the_parity_turns_only_where_somebody_waits(warp, out, mended):
    """The path for a phase that is already complete forgets to flip the parity."""
    start(warp, [1, 1])
    full, empty = 0, 1
    parity = 0
    for step in range(4):
        if warp.warpid == 0:
            arrive(warp, full)
            if not warp.mbarrier_test_wait(512 + 8 * empty, parity):
                wait(warp, empty, parity)
                parity ^= 1
            elif mended:
                parity ^= 1
        else:
            wait(warp, full, step & 1)
            compute(warp)
            arrive(warp, empty)


@rare(96)
def the_count_is_cleared_after_the_release(warp, out, mended):
    """Two readers count themselves; the last one releases the buffer, and then clears the count."""
    count, full, empty = 0, 0, 1
    start(warp, [1, 1])
    for step in range(3):
        if warp.warpid == 2:
            if step:
                wait(warp, empty, step - 1 & 1)
            compute(warp)
            warp.st_shared(128 + 4 * warp.laneid, step)
            warp.bar_warp_sync()
            arrive(warp, full)
            continue
        wait(warp, full, step & 1)
        warp.ld_shared(128 + 4 * warp.laneid)
        warp.bar_warp_sync()
        if add(warp, count, 1) == 1:
            if mended:
                swap(warp, count, 0)
                arrive(warp, empty)
            else:
                arrive(warp, empty)
                swap(warp, count, 0)


@rare(96)
def a_consumer_falls_two_phases_behind(warp, out, mended):
    """Only one of two consumers holds the producer back. For the other one, the parity repeats."""
    full, empty = 0, 1
    start(warp, [1, 2 if mended else 1])
    for step in range(3):
        if warp.warpid == 2:
            if step:
                wait(warp, empty, step - 1 & 1)
            compute(warp)
            arrive(warp, full)
        else:
            wait(warp, full, step & 1)
            if mended or warp.warpid == 1:
                arrive(warp, empty)


@rare()
def a_lock_that_acquires_only_at_the_first_try(warp, out, mended):
    """If the lock is free, nothing is missing. If it is taken, the loop that waits for it acquires nothing."""
    lock, data = 0, 128
    start(warp)
    compute(warp, 40 * warp.warpid)
    if not swapped(warp, lock, 0, 1, "acquire"):
        while not swapped(warp, lock, 0, 1, "acquire" if mended else "relaxed"):
            warp.nanosleep(20)
    warp.bar_warp_sync()
    warp.st_shared(data + 4 * warp.laneid, warp.ld_shared(data + 4 * warp.laneid))
    warp.bar_warp_sync()
    store(warp, lock, 0)


@rare(96)
def help_without_a_syncwarp(warp, out, mended):
    """A warp that finds its neighbour at work does a part of it, in the scratch memory that it has just used."""
    start(warp)
    state, scratch = 4 * warp.warpid, 128 + 128 * warp.warpid
    compute(warp, 40 * warp.warpid)
    store(warp, state, 1)
    warp.st_shared(scratch + 4 * warp.laneid, warp.laneid)
    warp.bar_warp_sync()
    total = warp.ld_shared(scratch + 4 * (31 - warp.laneid))[:, 0]
    store(warp, state, 2)
    if load(warp, 4 * ((warp.warpid + 1) % 3)) == 1:
        if mended:
            warp.bar_warp_sync()
        warp.st_shared(scratch + 4 * warp.laneid, total)


@rare()
def an_mbarrier_that_the_first_comer_makes(warp, out, mended):
    """The second warp may use it while it is being made. The mended one waits until the maker says it is ready."""
    claimed, there = 0, 4
    start(warp)
    compute(warp, 40 * warp.warpid)
    if not swap(warp, claimed, 1):
        with leader(warp):
            warp.mbarrier_init(512, 2)
        store(warp, there, 1)
    elif mended:
        while not load(warp, there):
            warp.nanosleep(20)
    else:
        load(warp, there)
    arrive(warp, 0)


@rare(96)
def a_queue_that_publishes_out_of_order(warp, out, mended):
    """The second producer publishes a length that counts the place of the first, which is still empty."""
    tail, length = 0, 4
    start(warp)
    if warp.warpid < 2:
        compute(warp, 40 * warp.warpid)
        place = add(warp, tail, 1)
        with leader(warp):
            warp.st_shared(256 + 4 * place, 1 + warp.warpid)
        if mended:
            while load(warp, length) < place:
                warp.nanosleep(20)
        add(warp, length, 1)
        return
    while not load(warp, length):
        warp.nanosleep(20)
    with leader(warp):
        warp.ld_shared(256)


@rare()
def a_reader_between_two_updates(warp, out, mended):
    """A lock of sequence numbers: the reader sees that no update is in progress, not that none has come between."""
    version, low, high = 0, 4, 8
    start(warp)
    if warp.warpid == 0:
        for step in (1, 2):
            compute(warp)
            add(warp, version, 1)
            store(warp, low, step)
            store(warp, high, step)
            add(warp, version, 1)
        return
    while True:
        before = load(warp, version)
        seen = load(warp, low), load(warp, high)
        after = load(warp, version)
        if before % 2 == 0 and (after == before if mended else after % 2 == 0):
            break
        warp.nanosleep(20)
    assert seen[0] == seen[1], f"half of one update and half of another: {seen}"


@rare()
def two_delays_to_a_torn_pair(warp, out, mended):
    """As above, and the reader also requires that there has been an update: the writer must stop between two, too."""
    version, low, high, seen = 0, 4, 8, (0, 0)
    start(warp)
    if warp.warpid == 0:
        for step in (1, 2):
            compute(warp)
            add(warp, version, 1)
            store(warp, low, step)
            store(warp, high, step)
            add(warp, version, 1)
    elif load(warp, version) == 2:
        first = load(warp, low)
        second = load(warp, high)
        if not mended or load(warp, version) == 2:
            seen = first, second
    assert seen[0] == seen[1], f"half of one update and half of another: {seen}"
