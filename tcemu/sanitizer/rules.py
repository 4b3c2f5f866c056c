"""THE TABLE of rules: what a kernel may not do, where the PTX manual says so, and what mends it.

A rule that is not here cannot be reported. The sections of the sanitizer find that one was broken; what it says, and
what to do, stands here only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Severity = Literal["error", "hint"]


@dataclass(frozen=True)
class Rule:
    """One rule: its name, what is wrong, the manual's section, the rule in our words, the fix."""

    id: str
    title: str
    #: section of the PTX manual (PTX ISA 9.1)
    section: str
    rule: str
    fix: str
    severity: Severity = "error"

    def __str__(self) -> str:
        return f"{self.id}: {self.title}"


_WGMMA = (
    Rule(
        "wgmma-fence-first",
        "no wgmma.fence before the first mma_async",
        "9.7.15.7.1",
        "Every warp of a warpgroup executes wgmma.fence before its first mma_async, which otherwise may read registers "
        "before what was written to them has arrived.",
        "Execute wgmma.fence in all four warps before the first mma_async.",
    ),
    Rule(
        "wgmma-fence-touched",
        "registers touched since the last wgmma.fence",
        "9.7.15.7.1",
        "Between any access to registers and an mma_async that has them as its accumulator or as A stands a "
        "wgmma.fence. Only mma_asyncs of the same shape may follow one another on an accumulator without one.",
        "Move the access before the wgmma.fence, or execute another wgmma.fence after it.",
    ),
    Rule(
        "wgmma-fence-shape",
        "mma_asyncs of different shapes share an accumulator without a wgmma.fence",
        "9.7.15.7.1",
        "mma_asyncs on the same accumulator are ordered without a wgmma.fence only if they have the same shape.",
        "Execute wgmma.fence between the two, once the first has been waited for.",
    ),
    Rule(
        "wgmma-fence-unneeded",
        "a wgmma.fence that orders nothing",
        "9.7.15.7.1",
        "wgmma.fence orders register accesses before it with mma_asyncs after it. With no mma_async after it, or "
        "between mma_asyncs of one group with no access in between, it orders nothing.",
        "Leave it out.",
        "hint",
    ),
    Rule(
        "wgmma-unwaited",
        "registers of an mma_async touched before a wait",
        "9.7.15.4",
        "From an mma_async on until a wgmma.wait_group that covers it, nobody reads or writes its accumulator or its "
        "A registers: it reads and writes them whenever it wants.",
        "Execute wgmma.commit_group and wgmma.wait_group before the access.",
    ),
    Rule(
        "wgmma-wait-weak",
        "wgmma.wait_group leaves the group under way",
        "9.7.15.7.3",
        "wgmma.wait_group N waits until at most the N youngest groups are under way. The registers of these N groups "
        "stay out of reach.",
        "Give wgmma.wait_group a smaller N before the access.",
    ),
    Rule(
        "wgmma-uncommitted",
        "an mma_async is never committed",
        "9.7.15.7.2",
        "wgmma.wait_group waits for groups. An mma_async belongs to none until a wgmma.commit_group after it, and no "
        "wait covers it.",
        "Execute wgmma.commit_group after the last mma_async of the group, and wait after that.",
    ),
    Rule(
        "wgmma-descriptors",
        "the warps of a warpgroup give different descriptors",
        "9.7.15.5.1",
        "The four warps execute one mma_async, on one tile: the matrix descriptors are the same in all of them.",
        "Compute the descriptors from what the four warps share, not from the warp's or the lane's number.",
    ),
    Rule(
        "warpgroup-start",
        "a warpgroup does not start at a multiple of four",
        "9.7.15.1",
        "A warpgroup is four warps in a row of which the first has a number that is a multiple of four.",
        "Let wgmma be executed by warps 0 to 3, 4 to 7 and so on, and round the number of warps up.",
    ),
)

_PROXIES = (
    Rule(
        "proxy-fence-missing",
        "written by ordinary stores, used by the async proxy without fence.proxy.async",
        "9.7.13.4",
        "wgmma and bulk copies access shared memory through the async proxy, which need not see what st, cp.async and "
        "stmatrix wrote through the generic proxy. Each thread that wrote executes fence.proxy.async after its writes.",
        "Execute fence.proxy.async in the writing threads after their stores, then a barrier.",
    ),
    Rule(
        "proxy-fence-thread",
        "fence.proxy.async in another thread than the one that wrote",
        "9.7.13.4",
        "fence.proxy.async is about the accesses of the thread that executes it. Another thread's fence does not carry "
        "a store into the async proxy, though it comes after a barrier.",
        "Let every thread that stores execute fence.proxy.async itself, then a barrier.",
    ),
    Rule(
        "proxy-fence-barrier",
        "no barrier between fence.proxy.async and what uses the bytes",
        "9.7.13.4",
        "After fence.proxy.async of the writers, those who use the bytes need to know that it was executed: a barrier, "
        "or an mbarrier's arrive and wait, between the fence and the use.",
        "Put the barrier after fence.proxy.async: stores, fence, barrier, use.",
    ),
)

_COPIES = (
    Rule(
        "overwritten-early",
        "shared memory overwritten while it is still in use",
        "8.9",
        "Before bytes are overwritten, everything that reads or fills them has ended, and the writer knows it: a "
        "wgmma by wgmma.wait_group, a bulk copy out of them by cp.async.bulk.wait_group.read, a copy into them by its "
        "mbarrier or wait_group, a load by a barrier after it.",
        "Wait for the reader to end, then tell the writer, with a barrier or an arrive on the stage's empty mbarrier.",
    ),
    Rule(
        "tma-unwaited",
        "data of a bulk copy used before its mbarrier phase completed",
        "9.7.9.25.2",
        "A bulk copy into shared memory is complete when the phase of its mbarrier is. Who uses the bytes waits for "
        "that phase, or meets at a barrier with someone who has.",
        "Wait on the mbarrier with the parity of the copy's phase before using the bytes.",
    ),
    Rule(
        "expect-tx",
        "expect_tx and the copies of a phase do not agree in bytes",
        "9.7.13.15",
        "The bytes that a phase of an mbarrier is told to expect are those of the bulk copies that end on it in this "
        "phase. With fewer, the phase completes too early; with more, never.",
        "Expect the sum of the bytes of all copies of the phase.",
    ),
    Rule(
        "cp-async-unwaited",
        "data of cp.async used before it was waited for",
        "9.7.9.25.3",
        "What cp.async copies is there for the thread that copied once it executed cp.async.wait_group or "
        "cp.async.wait_all that covers the copy, for others after a barrier behind the wait, or once the mbarrier of "
        "cp.async.mbarrier.arrive completes.",
        "Execute cp.async.wait_group with a small enough N before the barrier.",
    ),
)

_MEMORY = (
    Rule(
        "shared-race",
        "a race in shared memory between warps",
        "8.7",
        "Two accesses of different warps to the same bytes, one of them a write, need a barrier between them.",
        "Put bar.sync between the two accesses, or an mbarrier's arrive and wait.",
    ),
    Rule(
        "lane-race",
        "lanes of a warp exchange bytes without bar.warp.sync",
        "9.7.13.2",
        "Lanes of a warp do not run in step. What one lane stores, another may use after bar.warp.sync or a barrier.",
        "Put bar.warp.sync between the two accesses.",
    ),
    Rule(
        "ldmatrix-unsynced",
        "a matrix load reads bytes that were not synchronised",
        "9.7.14.5.15",
        "ldmatrix and wmma.load give each lane bytes that other lanes and warps have stored: a barrier, or within a "
        "warp bar.warp.sync, stands between the stores and the load. The load's .sync is none.",
        "Put bar.sync (bar.warp.sync, where only the warp's own lanes stored) before the load.",
    ),
    Rule(
        "uninitialised-shared",
        "shared memory read that nobody wrote",
        "5.1.8",
        "Shared memory holds anything when a block starts.",
        "Write the bytes first, all of them, or do not read them.",
    ),
    Rule(
        "uninitialised-registers",
        "registers read that nobody wrote",
        "5.1.1",
        "A register holds anything until something is written to it.",
        "Write the registers first. The first mma_async of a sum takes scale_d = 0, or an accumulator of zeros.",
    ),
    Rule(
        "out-of-range",
        "an access outside of memory",
        "6.4.1",
        "All bytes of an access lie inside the memory that it names.",
        "Check the addresses; let lanes at the edge take no part, or copy with a tensor map, which fills with zeros.",
    ),
    Rule(
        "misaligned",
        "a misaligned address",
        "6.4.1.1",
        "An address is a multiple of the bytes that a lane accesses there; some instructions ask for more.",
        "Align the address, or use a narrower access.",
    ),
    Rule(
        "mbarrier-init",
        "an mbarrier is used before its mbarrier.init can be seen",
        "9.7.13.15",
        "An mbarrier is an object in shared memory that mbarrier.init makes. Other threads use it after a barrier that "
        "follows the init.",
        "After mbarrier.init: fence.mbarrier_init or fence.proxy.async in that thread, then bar.sync for all.",
    ),
    Rule(
        "mbarrier-init-fence",
        "no fence between mbarrier.init and a bulk copy that ends on the mbarrier",
        "9.7.13.4",
        "mbarrier.init writes through the generic proxy, and bulk copies count their bytes through the async proxy: "
        "the thread that initialises executes fence.mbarrier_init or fence.proxy.async, before the barrier.",
        "After mbarrier.init: fence.mbarrier_init in the same thread.",
        "hint",
    ),
    Rule(
        "mbarrier-arrivals",
        "more threads arrive than the phase of an mbarrier waits for",
        "9.7.13.15",
        "A phase of an mbarrier takes as many arrivals as mbarrier.init said. Who arrives for the next phase knows "
        "that this one is complete.",
        "Compare the count of mbarrier.init with the threads that arrive, and wait for a phase before arriving again.",
    ),
    Rule(
        "mbarrier-object",
        "the bytes of an mbarrier are used as ordinary memory",
        "9.7.13.15",
        "From mbarrier.init to mbarrier.inval its 8 bytes are touched by mbarrier operations only, and not initialised "
        "a second time.",
        "Give the mbarrier bytes of its own, or execute mbarrier.inval before using them for something else.",
    ),
)

_DIVERGENCE = (
    Rule(
        "aligned-divergent",
        "an .aligned instruction in divergent code",
        "9.7.13.1",
        "All threads of a warp execute an .aligned instruction together.",
        "Take the instruction out of the branch.",
    ),
    Rule(
        "warpgroup-divergent",
        "the warps of a warpgroup execute different instructions",
        "9.7.15.1",
        "The four warps of a warpgroup execute each wgmma instruction together, the same in the same order.",
        "Let nothing that is around a wgmma instruction depend on the warp's number.",
    ),
    Rule(
        "barrier-threads",
        "a barrier with different numbers of threads",
        "9.7.13.1",
        "All that arrive at a barrier, until it completes, give the same number of threads.",
        "Give one number for one barrier everywhere, and different barriers to groups that meet separately.",
    ),
    Rule(
        "exited-threads",
        "threads are waited for that have exited",
        "9.7.13.1",
        "Threads that came to the end of the kernel take part in nothing. Who needs them, in a barrier or in a "
        "warpgroup, waits for ever or not at all, as the hardware likes.",
        "Keep all threads until the last barrier, or give the barrier the number of threads that still come.",
    ),
    Rule(
        "deadlock",
        "nobody can go on",
        "9.7.13",
        "Whoever waits is woken by somebody: as many threads arrive as a barrier or an mbarrier counts.",
        "Compare the counts with those who arrive, and the parity that is waited for with the phases that complete.",
    ),
)

_FRAGMENTS = (
    Rule(
        "wmma-mixed",
        "a wmma fragment of another shape, type, role or architecture",
        "9.7.14.4",
        "How a wmma fragment spreads over registers is known only to the instructions of one shape, type, role and "
        "layout on one architecture. Loaded by one, it is used by its like.",
        "Load the fragment with the wmma.load that belongs to this instruction, on the target that runs it.",
    ),
)

RULES: Mapping[str, Rule] = MappingProxyType(
    {rule.id: rule for rule in (*_WGMMA, *_PROXIES, *_COPIES, *_MEMORY, *_DIVERGENCE, *_FRAGMENTS)}
)
