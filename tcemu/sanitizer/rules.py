"""THE TABLE of rules: what a kernel must not do, the section of the PTX manual that says so, and the fix.

The sanitizer can report only the rules in this table. Its other modules detect that a rule was broken; the texts about
the rule itself are all here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Severity = Literal["error", "warning", "hint"]


@dataclass(frozen=True)
class Rule:
    """One rule: its name, the mistake in a few words, the manual's section, the rule in our words, and the fix.

    >>> rule = next(iter(tcemu.sanitizer.RULES.values()))
    >>> bool(rule.title and rule.section and rule.fix)
    True
    """

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
        "Every warp of a warpgroup must execute wgmma.fence before its first mma_async. Without the fence, the "
        "mma_async may read registers before earlier writes to them are visible.",
        "Execute wgmma.fence in all four warps before the first mma_async.",
    ),
    Rule(
        "wgmma-fence-touched",
        "registers accessed after the last wgmma.fence",
        "9.7.15.7.1",
        "After any access to registers, a warp must execute wgmma.fence before an mma_async uses them as its "
        "accumulator or as A. Only consecutive mma_asyncs of the same shape may share an accumulator without a fence.",
        "Move the access before the wgmma.fence, or execute another wgmma.fence after it.",
    ),
    Rule(
        "wgmma-fence-shape",
        "mma_asyncs of different shapes share an accumulator without a wgmma.fence",
        "9.7.15.7.1",
        "Without a wgmma.fence between them, mma_asyncs on the same accumulator are ordered only if they have the same "
        "shape.",
        "Wait for the first mma_async, then execute wgmma.fence before the second.",
    ),
    Rule(
        "wgmma-fence-unneeded",
        "a wgmma.fence that orders nothing",
        "9.7.15.7.1",
        "wgmma.fence orders earlier register accesses with later mma_asyncs. It orders nothing if no mma_async "
        "follows, or if it lies between mma_asyncs of one group without any register access between them.",
        "Remove the fence.",
        "hint",
    ),
    Rule(
        "wgmma-unwaited",
        "registers of an mma_async accessed before a wait",
        "9.7.15.4",
        "An mma_async reads and writes its registers asynchronously. Until a wgmma.wait_group covers it, no other "
        "instruction may read or write its accumulator or its A registers.",
        "Execute wgmma.commit_group and wgmma.wait_group before the access.",
    ),
    Rule(
        "wgmma-wait-weak",
        "wgmma.wait_group leaves the group pending",
        "9.7.15.7.3",
        "wgmma.wait_group N waits until at most the N latest groups are pending. The kernel must not access the "
        "registers of those N groups yet.",
        "Give wgmma.wait_group a smaller N before the access.",
    ),
    Rule(
        "wgmma-uncommitted",
        "an mma_async is never committed",
        "9.7.15.7.2",
        "wgmma.wait_group waits only for committed groups. An mma_async joins a group when a later wgmma.commit_group "
        "executes; until then no wait covers it.",
        "Execute wgmma.commit_group after the last mma_async of the group, and wait after that.",
    ),
    Rule(
        "wgmma-descriptors",
        "the warps of a warpgroup pass different matrix descriptors",
        "9.7.15.5.1",
        "The four warps of a warpgroup execute one mma_async together, on the same tiles, so all four must pass the "
        "same matrix descriptors.",
        "Compute the descriptors only from values that the four warps share, not from the warp's or the lane's number.",
    ),
    Rule(
        "warpgroup-start",
        "a warpgroup does not start at a multiple of four",
        "9.7.15.1",
        "A warpgroup is four consecutive warps, and the number of the first is a multiple of four.",
        "Execute wgmma in warps 0 to 3, 4 to 7 and so on, and round the number of warps up to a multiple of four.",
    ),
)

_PROXIES = (
    Rule(
        "proxy-fence-missing",
        "written by ordinary stores, used by the async proxy without fence.proxy.async",
        "9.7.13.4",
        "wgmma and bulk copies access shared memory through the async proxy, which may not see what st, cp.async and "
        "stmatrix wrote through the generic proxy. Each thread that wrote must execute fence.proxy.async after its "
        "writes.",
        "Execute fence.proxy.async in the writing threads after their stores, then a barrier.",
    ),
    Rule(
        "proxy-fence-thread",
        "fence.proxy.async in a different thread from the one that wrote",
        "9.7.13.4",
        "fence.proxy.async covers only the accesses of the thread that executes it. A fence in another thread does not "
        "make the store visible to the async proxy, even after a barrier.",
        "Execute fence.proxy.async in every thread that stores, then a barrier.",
    ),
    Rule(
        "proxy-fence-barrier",
        "no barrier between fence.proxy.async and the use of the bytes",
        "9.7.13.4",
        "The threads that use the bytes must synchronise with the writers after the writers' fence.proxy.async: with a "
        "barrier, or with an mbarrier's arrive and wait, between the fence and the use.",
        "Put the barrier after fence.proxy.async: stores, fence, barrier, use.",
    ),
)

_COPIES = (
    Rule(
        "overwritten-early",
        "shared memory overwritten while it is still in use",
        "8.9",
        "Before a thread overwrites bytes, it must know that every operation that reads or fills them has ended. It "
        "learns that of a wgmma from wgmma.wait_group, of a bulk copy out of the bytes from "
        "cp.async.bulk.wait_group.read, of a copy into them from its mbarrier or wait_group, and of a load from a "
        "barrier after the load.",
        "Wait until the reader has ended, then notify the writer with a barrier or an arrive on the stage's empty "
        "mbarrier.",
    ),
    Rule(
        "tma-unwaited",
        "data of a bulk copy used before its mbarrier phase completed",
        "9.7.9.25.2",
        "A bulk copy into shared memory is complete when the phase of its mbarrier completes. A thread that uses the "
        "bytes must wait for that phase, or synchronise at a barrier with a thread that has waited.",
        "Wait on the mbarrier with the parity of the copy's phase before using the bytes.",
    ),
    Rule(
        "expect-tx",
        "the bytes of expect_tx and of the phase's copies differ",
        "9.7.13.15",
        "expect_tx must announce exactly the bytes of the bulk copies that complete on the mbarrier in this phase. If "
        "it announces too few, the phase completes too early; if it announces too many, the phase never completes.",
        "Expect the sum of the bytes of all copies of the phase.",
    ),
    Rule(
        "cp-async-unwaited",
        "data of cp.async used before a wait",
        "9.7.9.25.3",
        "The thread that executed cp.async may use the copied bytes after a cp.async.wait_group or cp.async.wait_all "
        "that covers the copy. Other threads may use them after a barrier that follows that wait, or once the mbarrier "
        "of cp.async.mbarrier.arrive completes its phase.",
        "Execute cp.async.wait_group with a small enough N before the barrier.",
    ),
    Rule(
        "cp-async-src-size",
        "the src-size of cp.async is greater than its cp-size",
        "9.7.9.25.3",
        "cp.async writes cp-size bytes: src-size bytes from the source, then zeros. A src-size that is greater than "
        "cp-size is undefined.",
        "Limit src-size to cp-size. It counts bytes and has no sign, so clamp it to 0 at an edge before you pass it.",
    ),
)

_MEMORY = (
    Rule(
        "shared-race",
        "a race in shared memory between warps",
        "8.7",
        "If two warps access the same bytes and at least one of them writes, there must be a barrier between the two "
        "accesses.",
        "Put bar.sync between the two accesses, or an mbarrier's arrive and wait.",
    ),
    Rule(
        "global-race",
        "a race in global memory",
        "8.7",
        "If two threads access the same bytes of global memory and at least one of them writes, one access must happen "
        "before the other. Blocks run in any order; only a release in one and an acquire in the other, at the same "
        "location and with a scope that reaches both, order their accesses.",
        "In the writer, execute fence.acq_rel.gpu and then set a flag or a counter; in the other thread, read it "
        "and then execute a fence. Or use st.release.gpu and ld.acquire.gpu.",
    ),
    Rule(
        "lane-race",
        "lanes of a warp exchange bytes without bar.warp.sync",
        "9.7.13.2",
        "The lanes of a warp do not run in step. A lane may use what another lane stored only after bar.warp.sync or a "
        "barrier.",
        "Put bar.warp.sync between the two accesses.",
    ),
    Rule(
        "ldmatrix-unsynced",
        "a matrix load reads bytes that were not synchronised",
        "9.7.14.5.15",
        "ldmatrix and wmma.load give each lane bytes that other lanes and warps stored. There must be a barrier "
        "between the stores and the load; within one warp, bar.warp.sync is enough. The .sync in the load's name does "
        "not order the stores.",
        "Put bar.sync before the load, or bar.warp.sync if only the warp's own lanes stored the bytes.",
    ),
    Rule(
        "uninitialised-shared",
        "shared memory read before it was written",
        "5.1.8",
        "The contents of shared memory are undefined when a block starts.",
        "Write all of the bytes before reading them, or do not read them.",
    ),
    Rule(
        "uninitialised-registers",
        "registers read before they were written",
        "5.1.1",
        "The contents of a register are undefined until an instruction writes to it.",
        "Write the registers first. For the first mma_async of a sum, pass scale_d = 0 or an accumulator of zeros.",
    ),
    Rule(
        "out-of-range",
        "an access outside the memory",
        "6.4.1",
        "All bytes of an access must lie inside the memory that the instruction names.",
        "Check the addresses. At an edge, disable the lanes that are outside, or copy with a tensor map, which fills "
        "with zeros.",
    ),
    Rule(
        "misaligned",
        "a misaligned address",
        "6.4.1.1",
        "An address must be a multiple of the number of bytes that a lane accesses there; some instructions require "
        "more.",
        "Align the address, or use a narrower access.",
    ),
    Rule(
        "mbarrier-init",
        "an mbarrier is used before its mbarrier.init is visible",
        "9.7.13.15",
        "mbarrier.init creates an mbarrier object in shared memory. Other threads may use it only after a barrier that "
        "follows the mbarrier.init.",
        "After mbarrier.init, execute fence.mbarrier_init or fence.proxy.async in the same thread, then bar.sync in "
        "all threads.",
    ),
    Rule(
        "mbarrier-init-fence",
        "no fence between mbarrier.init and a bulk copy that completes on the mbarrier",
        "9.7.13.4",
        "mbarrier.init writes through the generic proxy, and bulk copies update the mbarrier through the async proxy. "
        "The thread that executes mbarrier.init must therefore execute fence.mbarrier_init or fence.proxy.async after "
        "it, before the barrier.",
        "After mbarrier.init, execute fence.mbarrier_init in the same thread.",
        "hint",
    ),
    Rule(
        "mbarrier-arrivals",
        "more threads arrive than the phase of an mbarrier expects",
        "9.7.13.15",
        "A phase of an mbarrier takes exactly as many arrivals as mbarrier.init specified. A thread may arrive for the "
        "next phase only when it knows that this one is complete.",
        "Compare the count of mbarrier.init with the threads that arrive, and wait for a phase before arriving again.",
    ),
    Rule(
        "mbarrier-object",
        "the bytes of an mbarrier are used as ordinary memory",
        "9.7.13.15",
        "From mbarrier.init to mbarrier.inval, only mbarrier operations may access the 8 bytes of the mbarrier, and "
        "mbarrier.init must not execute on them again.",
        "Give the mbarrier its own bytes, or execute mbarrier.inval before using them for something else.",
    ),
)

_DIVERGENCE = (
    Rule(
        "aligned-divergent",
        "an .aligned instruction in divergent code",
        "9.7.13.1",
        "All threads of a warp must execute an .aligned instruction together.",
        "Move the instruction out of the branch.",
    ),
    Rule(
        "absent-lanes",
        "lanes that a .sync instruction names or reads do not execute it",
        "9.7.9.6",
        "Every lane that executes a .sync instruction must be in its membermask, and every lane of the membermask must "
        "execute it. What shfl reads from a lane that does not execute it is undefined.",
        "Execute the instruction in all lanes that the membermask names, and in no others.",
    ),
    Rule(
        "warpgroup-divergent",
        "the warps of a warpgroup execute different instructions",
        "9.7.15.1",
        "The four warps of a warpgroup must execute the same wgmma instructions, and the same setmaxnreg, in the same "
        "order.",
        "Make the control flow around a wgmma instruction independent of the warp's number.",
    ),
    Rule(
        "barrier-threads",
        "the count of a barrier does not match the threads that arrive",
        "9.7.13.1",
        "Every warp that arrives at a barrier must give the same number of threads, until it completes: as many as "
        "arrive, 32 for each warp.",
        "Give each barrier the same number everywhere, and use different barriers for groups that meet separately.",
    ),
    Rule(
        "barriers-parted",
        "lanes of one warp wait at different barriers",
        "9.7.13.1",
        "A barrier counts a warp once all of its lanes have arrived there. If some of them arrive at another barrier "
        "meanwhile, neither barrier can count the warp.",
        "Make all lanes of a warp arrive at the same barriers in the same order. Choose a barrier by the number of "
        "the warp, not of the lane.",
    ),
    Rule(
        "setmaxnreg-count",
        "setmaxnreg with an illegal number of registers",
        "9.7.19.5",
        "setmaxnreg.inc requests registers, and setmaxnreg.dec releases some. The operand is not the difference but "
        "the new number, a multiple of 8 from 24 to 256.",
        "Use .inc if the new number is greater than the one the warp has, and .dec if it is smaller.",
    ),
    Rule(
        "exited-threads",
        "waiting for threads that have exited",
        "9.7.13.1",
        "A thread that has exited cannot take part in a barrier or a warpgroup. If others still need it, the behaviour "
        "is undefined: they may wait forever or not at all.",
        "Keep all threads running until the last barrier, or give the barrier the number of threads that still arrive.",
    ),
    Rule(
        "flag-never-set",
        "a loop waits for a value that no thread writes",
        "8.7",
        "A thread that polls a location continues only when another thread stores to it. If all others have exited or "
        "are waiting themselves, none will.",
        "Store the value that the loop waits for, in a thread that does not wait for this one.",
    ),
    Rule(
        "deadlock",
        "no warp can continue",
        "9.7.13",
        "A waiting warp continues only when what it waits for happens: as many threads must arrive as the barrier or "
        "the mbarrier expects.",
        "Compare the expected counts with the threads that arrive, and the parity of each wait with the phases that "
        "complete.",
    ),
)

_FRAGMENTS = (
    Rule(
        "wmma-mixed",
        "a wmma fragment of another shape, type, role or architecture",
        "9.7.14.4",
        "The manual does not say how a wmma fragment is spread over registers. Only wmma instructions of the same "
        "shape, type, role and layout, on the same architecture, agree on it.",
        "Load the fragment with the wmma.load that matches this instruction, on the target that executes it.",
    ),
)

RULES: Mapping[str, Rule] = MappingProxyType(
    {rule.id: rule for rule in (*_WGMMA, *_PROXIES, *_COPIES, *_MEMORY, *_DIVERGENCE, *_FRAGMENTS)}
)
