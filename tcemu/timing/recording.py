"""What a launch did, as a timeline needs it: for each warp its operations, and what they wait for and complete.

A `Recorder` receives the machine's events. It keeps no addresses and no values: an operation has the numbers that its
price depends on (wavefronts, bytes, sectors), the operations of its warp whose results it reads, and tokens. What it
reads, the registers of a kernel in Python show; of a kernel in PTX, the event Sourced tells it. A token
stands for something that completes once: a generation of a barrier, a phase of an mbarrier, a group of asynchronous
copies or products. Operations contribute to tokens and wait for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from tcemu.machine import events
from tcemu.machine.events import By, Event
from tcemu.machine.tensor_map import TensorMap
from tcemu.timing.accesses import LINE, sectors, shared_wavefronts
from tcemu.timing.banks import BANKS, WORD
from tcemu.timing.flags import Flags
from tcemu.timing.lifetimes import Lifetimes
from tcemu.timing.operations import BlockTrace, Kind, LaunchTrace, Op, Token


class Recorder:
    """Receives events and keeps each block's operations; a second launch replaces the first."""

    def __init__(self) -> None:
        self.target = ""
        self.launch = LaunchTrace()
        self.flags = Flags(self.launch)
        #: the numbers of the tensor maps
        self.maps: dict[TensorMap, int] = {}
        self._states: dict[int, _Block] = {}

    def __call__(self, event: Event) -> None:
        """Receive an event."""
        receive = _RECEIVERS.get(type(event))
        if receive is not None:
            receive(self, event)

    def started(self, event: events.BlockStarted) -> None:
        """A block begins: a block that was there before means a new launch."""
        if event.block in self.launch.blocks:
            self.launch, self._states = LaunchTrace(), {}
            self.flags = Flags(self.launch)
        warps: list[list[Op]] = [[] for _ in range(event.warps)]
        trace = BlockTrace(event.block, event.threads, event.shared, warps, event.cluster)
        self.target = event.target
        self.launch.blocks[event.block] = trace
        self._states[event.block] = _Block(trace, self)

    def ended(self, event: events.BlockEnded) -> None:
        """Drop the state that was needed only while the block ran."""
        state = self._states.pop(event.block, None)
        if state is not None:
            state.trace.alive = max(warp.lives.most for warp in state.warps)

    def block(self, number: int) -> _Block:
        """A block that runs."""
        return self._states[number]


class _Warp:
    """The state of a warp while it runs."""

    __slots__ = (
        "computed", "current", "done", "last", "lives", "ops", "products", "reads", "sourced", "waited", "writers",
    )  # fmt: skip

    def __init__(self, ops: list[Op]) -> None:
        self.ops = ops
        self.current: Op | None = None
        #: the operation that wrote a register last, by the register's number
        self.writers: dict[int, int] = {}
        #: of a kernel in PTX: what the next operation reads, and the operations that each instruction was
        self.sourced: events.Sourced | None = None
        self.done: dict[tuple[str, int], list[int]] = {}
        #: the latest instruction of each program
        self.last: dict[str, int] = {}
        self.lives = Lifetimes()
        #: operations whose results were read since the last operation: the next one needs them
        self.reads: set[int] = set()
        #: by kind of copy: groups committed, and those that waits have covered
        self.waited = {"cp.async": 0, "bulk": 0}
        self.products = 0
        #: values that the kernel has computed since the latest operation, and not yet written into registers
        self.computed = 0

    def results(self, program: str, sources: Iterable[tuple[int, int]]) -> Iterator[int]:
        """The operations that instructions of a program were, each so many executions ago."""
        for number, age in sources:
            operations = self.done.get((program, number), ())
            if age < len(operations):
                yield operations[-1 - age]


class _Block:
    """Turns the events of one block into operations."""

    def __init__(self, trace: BlockTrace, recorder: Recorder) -> None:
        self.trace, self._recorder = trace, recorder
        self._expected = recorder.launch.expected
        self.warps = [_Warp(ops) for ops in trace.warps]
        self.generations: Counter[int] = Counter()
        #: how often an address became an mbarrier
        self.objects: Counter[int] = Counter()
        self.groups_waited: Counter[int] = Counter()

    # ------------------------------------------------------------------------------------------ operations

    def issued(self, event: events.Issued) -> None:
        """A warp begins an operation."""
        warp, instruction = self.warps[event.by.warp], event.instruction
        op = Op(_KINDS.get(instruction.family, "plain"), instruction.opcode, event.by.site, instruction)
        if op.kind == "plain" and instruction.family.startswith(("mma", "wmma.mma")):
            op.kind = "mma"
        for _, registers in event.operands:
            first = registers.bank.first
            self._read(warp, range(first, first + registers.bank.bits.shape[1]))
            warp.lives.used(registers.bank, len(warp.ops))
        if warp.sourced is not None:
            op.again = self._stretch(warp, warp.sourced)
            self._trace(warp, warp.sourced)
        op.reads, warp.reads = tuple(warp.reads), set()
        if op.kind == "wgmma":
            op.number, warp.products = warp.products, warp.products + 1
            op.a = "registers" if any(role == "a" for role, _ in event.operands) else "shared"
        warp.ops.append(op)
        warp.current, warp.computed = op, 0

    def sourced(self, event: events.Sourced) -> None:
        """The next operation reads the results of these instructions."""
        self.warps[event.by.warp].sourced = event

    @staticmethod
    def _stretch(warp: _Warp, event: events.Sourced) -> bool:
        """The ordinary instructions before the operation that begins; whether a loop has begun again."""
        last = warp.last.get(event.program, -1)
        warp.last[event.program] = event.number
        stretch = event.since(last)
        if stretch.instructions:
            op = Op("arithmetic", "arithmetic", event.by.site, stretch=stretch, number=len(stretch.instructions))
            op.reads = tuple(warp.results(event.program, stretch.sources))
            warp.ops.append(op)
        return stretch.again

    @staticmethod
    def _trace(warp: _Warp, event: events.Sourced) -> None:
        """The operation that begins reads those that the instructions were."""
        warp.reads.update(warp.results(event.program, event.sources))
        warp.done.setdefault((event.program, event.number), []).append(len(warp.ops))

    def computed(self, event: events.Computed) -> None:
        """The kernel's own arithmetic, by known instructions."""
        warp = self.warps[event.by.warp]
        op = Op("arithmetic", event.opcode, event.by.site, number=event.count)
        op.reads, warp.reads = tuple(warp.reads), set()
        warp.ops.append(op)
        warp.current, warp.computed = None, warp.computed + event.count

    def touched(self, event: events.Touched) -> None:
        """Registers were read or written: by the current operation, or by the kernel itself."""
        warp = self.warps[event.by.warp]
        op, last = warp.current, len(warp.ops) - 1
        own = op is not None and op.site == event.by.site
        warp.lives.used(event.registers.bank, last if own else last + 1)
        if not event.writes:
            before = len(warp.reads)
            self._read(warp, event.numbers)
            if own and op is not None and len(warp.reads) > before and last not in warp.reads:
                op.reads, warp.reads = tuple({*op.reads, *warp.reads}), set()
            return
        if not own:
            self._moved(warp, event)
        warp.current = None
        for number in event.numbers:
            warp.writers[number] = len(warp.ops) - 1

    @staticmethod
    def _moved(warp: _Warp, event: events.Touched) -> None:
        """The kernel writes registers: an operation, unless the operations that made the values wrote them there."""
        count, last = len(event.which), len(warp.ops) - 1
        if warp.reads == {last} and warp.ops[last].kind in _LOADS and warp.ops[last].site == event.by.site:
            warp.reads = set()  # c[:] = warp.ld_global(...): nothing waits for the load yet
            return
        if count <= warp.computed:
            warp.computed -= count
            return
        op = Op("arithmetic", "arithmetic", event.by.site, number=count - warp.computed)
        op.reads, warp.reads, warp.computed = tuple(warp.reads), set(), 0
        warp.ops.append(op)

    @staticmethod
    def _read(warp: _Warp, numbers: Iterable[int]) -> None:
        writers = warp.writers
        for number in numbers:
            if number in writers:
                warp.reads.add(writers[number])

    def _op(self, by: By) -> Op:
        """The operation that a warp's event belongs to: its latest."""
        return self.warps[by.warp].ops[-1]

    def accessed(self, event: events.Accessed) -> None:
        """Bytes were read or written: the banks or the sectors are counted."""
        op = self._op(event.by)
        op.bytes += event.size * len(event.addresses)
        op.writes |= event.writes
        if event.space == "shared":
            op.kind = "shared"
            count, least = shared_wavefronts(event)
            op.wavefronts, op.least = op.wavefronts + count, op.least + least
        else:
            op.kind = "global"
            op.sectors += sectors(event.addresses, event.size)
            op.lines += sectors(event.addresses, event.size, LINE) if op.writes else 0
            if event.order and len(event.addresses):
                self._recorder.flags.accessed(event, self.warps[event.by.warp].ops)

    # ------------------------------------------------------------------------------------------ tokens

    def _give(self, op: Op, token: Token) -> Token:
        op.gives.append(token)
        self._expected[token] += 1
        return token

    def _await(self, op: Op, token: Token) -> None:
        """Wait for a token, if anything contributes to it."""
        if token in self._expected:
            op.waits.append(token)

    def _token(self, kind: Literal["barrier", "cp.async", "bulk", "wgmma"], owner: int, number: int) -> Token:
        """A token of this block."""
        return Token(kind, owner, number, block=self.trace.number)

    def _of(self, owner: int) -> _Block:
        """The block that has an mbarrier: `owner` is its number, or -1 for this one."""
        return self if owner < 0 else self._recorder.block(owner)

    def barrier_arrived(self, event: events.BarrierArrived) -> None:
        """bar.sync contributes to its barrier's generation, and waits for it."""
        op = self._op(event.by)
        token = self._give(op, self._token("barrier", event.barrier, self.generations[event.barrier]))
        if event.waits:
            op.waits.append(token)

    def barrier_completed(self, event: events.BarrierCompleted) -> None:
        """The next arrivals belong to the next generation."""
        self.generations[event.barrier] += 1

    def mbarrier_initialised(self, event: events.MbarrierInitialised) -> None:
        """The address is a new object, whose phases start again."""
        self.objects[event.address] += 1

    def mbarrier_arrived(self, event: events.MbarrierArrived) -> None:
        """An arrival contributes to its phase, perhaps that of an mbarrier in another block."""
        self._give(self._op(event.by), self._of(event.owner).phase(event.address, event.phase))

    def mbarrier_waited(self, event: events.MbarrierWaited) -> None:
        """A wait found its phase complete."""
        self._await(self._op(event.by), self.phase(event.address, event.phase))

    def phase(self, address: int, phase: int) -> Token:
        """A phase of one of this block's mbarriers."""
        return Token("mbarrier", address, phase, self.objects[address], self.trace.number)

    def cluster_arrived(self, event: events.ClusterArrived) -> None:
        """barrier.cluster.arrive contributes to the phase of the cluster's barrier."""
        self._give(self._op(event.by), Token("cluster", self.trace.cluster[0], event.phase))

    def cluster_waited(self, event: events.ClusterWaited) -> None:
        """barrier.cluster.wait waits for it."""
        self._await(self._op(event.by), Token("cluster", self.trace.cluster[0], event.phase))

    def copies_arrive(self, event: events.CopiesArrive) -> None:
        """cp.async.mbarrier.arrive contributes once the warp's copies have ended."""
        op = self._op(event.by)
        op.follows_copies = True
        self._give(op, self.phase(event.address, event.phase))

    # ------------------------------------------------------------------------------------------ copies, products

    def copy_issued(self, event: events.CopyIssued) -> None:
        """A copy contributes to its group or to its mbarrier's phase."""
        copy = event.copy
        op = self._op(copy.by)
        op.bytes += copy.bytes
        first = not op.copies
        op.copies.append(copy.bytes if first or copy.owner < 0 else 0)  # a multicast goes through the engine once
        if copy.tensor_map is not None:
            op.map = self._recorder.maps.setdefault(copy.tensor_map, len(self._recorder.maps))
        op.kind = "copy" if copy.kind == "cp.async" else "bulk"
        op.writes |= copy.writes[0] == "global"
        space, addresses, size = copy.writes if op.writes else copy.reads
        op.sectors += sectors(addresses, size) if space == "global" and len(addresses) else 0
        op.wavefronts += -(-copy.bytes // (BANKS * WORD))
        if copy.mbarrier >= 0:
            self._give(op, self._of(copy.owner).phase(copy.mbarrier, copy.phase))
        elif copy.kind != "st.async":  # which an mbarrier counts
            self._give(op, self._token(copy.kind, copy.by.warp, copy.group))

    def copies_committed(self, event: events.CopiesCommitted) -> None:
        """commit_group closes a group."""
        self._op(event.by).commits = self._token(event.kind, event.by.warp, event.group)

    def copies_waited(self, event: events.CopiesWaited) -> None:
        """wait_group waits for all groups before `below` that no earlier wait has covered."""
        warp, op = self.warps[event.by.warp], self._op(event.by)
        for group in range(warp.waited[event.kind], event.below):
            self._await(op, self._token(event.kind, event.by.warp, group))
        warp.waited[event.kind] = max(warp.waited[event.kind], event.below)

    def wgmma_issued(self, event: events.WgmmaIssued) -> None:
        """The product contributes to its group, once for the warpgroup."""
        wgmma = event.wgmma
        op = self._op(wgmma.bys[0])
        op.writes = not wgmma.adds
        token = self._give(op, self._token("wgmma", wgmma.warpgroup, wgmma.group))
        for by in wgmma.bys[1:]:
            self._op(by).gives.append(token)

    def wgmma_committed(self, event: events.WgmmaCommitted) -> None:
        """commit_group closes the warpgroup's group."""
        self._op(event.bys[0]).commits = self._token("wgmma", event.warpgroup, event.group)

    def wgmma_waited(self, event: events.WgmmaWaited) -> None:
        """The four warps wait for all groups before `below` that no earlier wait has covered."""
        first = self.groups_waited[event.warpgroup]
        for by in event.bys:
            for group in range(first, event.below):
                self._await(self._op(by), self._token("wgmma", event.warpgroup, group))
        self.groups_waited[event.warpgroup] = max(first, event.below)


#: What a family of instructions uses; other kinds follow from the events.
_KINDS: dict[str, Kind] = {"wgmma": "wgmma"}
#: What loads into registers.
_LOADS: tuple[Kind, ...] = ("shared", "global")


def _in_block(name: str) -> Callable[[Recorder, Any], None]:
    def receive(recorder: Recorder, event: Any) -> None:
        getattr(recorder.block(event.block), name)(event)

    return receive


_RECEIVERS: dict[type[Event], Callable[[Recorder, Any], None]] = {
    events.BlockStarted: Recorder.started,
    events.BlockEnded: Recorder.ended,
    events.Issued: _in_block("issued"),
    events.Sourced: _in_block("sourced"),
    events.Touched: _in_block("touched"),
    events.Computed: _in_block("computed"),
    events.Accessed: _in_block("accessed"),
    events.BarrierArrived: _in_block("barrier_arrived"),
    events.BarrierCompleted: _in_block("barrier_completed"),
    events.MbarrierInitialised: _in_block("mbarrier_initialised"),
    events.MbarrierArrived: _in_block("mbarrier_arrived"),
    events.MbarrierWaited: _in_block("mbarrier_waited"),
    events.ClusterArrived: _in_block("cluster_arrived"),
    events.ClusterWaited: _in_block("cluster_waited"),
    events.CopiesArrive: _in_block("copies_arrive"),
    events.CopyIssued: _in_block("copy_issued"),
    events.CopiesCommitted: _in_block("copies_committed"),
    events.CopiesWaited: _in_block("copies_waited"),
    events.WgmmaIssued: _in_block("wgmma_issued"),
    events.WgmmaCommitted: _in_block("wgmma_committed"),
    events.WgmmaWaited: _in_block("wgmma_waited"),
}
