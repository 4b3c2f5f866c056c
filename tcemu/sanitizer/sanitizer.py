"""The sanitizer: an observer that checks the rules in each block, and raises, warns or collects its reports."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal, get_args

from tcemu.backend import backend, computed
from tcemu.errors import OperandError, UndefinedBehaviour, counted, listing, shown
from tcemu.instructions import Instruction
from tcemu.machine.events import (
    Accessed,
    Accesses,
    BarrierCompleted,
    BlockEnded,
    BlockStarted,
    Computed,
    Event,
    Faulted,
    Issued,
    Stuck,
    Tcgen05Issued,
    Touched,
    WgmmaFenced,
    WgmmaIssued,
)
from tcemu.sanitizer import rules
from tcemu.sanitizer.batch import Room
from tcemu.sanitizer.batches import Batches
from tcemu.sanitizer.block import Block, Handler
from tcemu.sanitizer.cluster import Cluster
from tcemu.sanitizer.grid import Grid
from tcemu.sanitizer.report import Report, SanitizerWarning
from tcemu.sanitizer.rounds import Round
from tcemu.sanitizer.shadow import Tiles
from tcemu.sanitizer.watch import SectionsOf, Watch
from tcemu.tracebacks import cell

#: raise: the first broken rule ends the launch. warn: each broken rule is a warning at the kernel's line. collect: the
#: reports only go into `reports`, as hints do in every mode but off. off: the sanitizer checks nothing.
Mode = Literal["raise", "warn", "collect", "off"]
MODES: tuple[Mode, ...] = get_args(Mode)
_NONE: dict[object, list[Handler]] = {}
#: The bytes of so many accesses, one by one, that they take about the time of a product of the reference.
_PRODUCT = 512
for _module in iter_modules(rules.__path__):  # which put rules and sections into their tables
    import_module(f"{rules.__name__}.{_module.name}")


class Sanitizer:
    """An observer of a launch that reports undefined behaviour and races.

    `reports` lists what it found, once for each rule and pair of lines. Raises OperandError for an unknown mode and, in
    mode "raise", UndefinedBehaviour during the launch.

    >>> def racing(warp):
    ...     warp.st_shared(4 * warp.threads, warp.threads)
    ...     warp.ld_shared(4 * (63 - warp.threads))  # what the other warp writes, without a barrier
    >>> watch = tcemu.sanitizer.Sanitizer("collect")
    >>> result = tcemu.launch(racing, block=64, shared=256, sanitizer="off", observers=[watch])
    >>> [report.rule for report in watch.reports], len(watch.errors)
    (['shared-race'], 1)
    >>> watch.hears(tcemu.machine.events.Touched)  # without wgmma, it needs no accesses to registers
    False
    >>> [watch.follows(tcemu.parse(opcode)) for opcode in ("st.shared.b32", "bar.warp.sync")]  # who executes it?
    [False, True]
    """

    #: one access to registers is enough of those that repeat it
    once = frozenset({Touched})

    def __init__(self, mode: Mode = "raise", outputs: Mapping[str, str] = {}) -> None:
        """`outputs` are the arrays that earlier launches have written, by their names here, with the kernel of each."""
        if not isinstance(mode, str) or mode not in MODES:
            raise OperandError(f"a sanitizer's mode must be {listing(map(repr, MODES))}; got {shown(mode)}")
        self.mode, self._outputs = mode, outputs
        #: whether kernels note native accesses, from now on
        self._takes = False
        self.reports: list[Report] = []
        self._tiles: Tiles = {}
        self._known: dict[tuple[object, ...], Report] = {}
        #: by block: the receiver of its events and, if it is in a cluster, that cluster, which sees them as its own
        self._watches: dict[int, tuple[Watch, Cluster | None]] = {}
        #: by block that is in no cluster: the handlers that are known so far, which is all that most events need
        self._handlers: dict[int, dict[object, list[Handler]]] = {}
        #: by block: what notes its native accesses
        self._batches: dict[int, Batches] = {}
        self._sections_of: SectionsOf = {}
        #: native accesses that are noted later, with those of other warps
        self._round, self._rooms = Round(self._pass_on), list[Room]()
        self._grid: Grid | None = None
        #: the instructions that its sections need; they are the same in all blocks
        self._needs: tuple[Callable[[Instruction, bool], bool], ...] = ()
        #: whether a kernel has executed wgmma or tcgen05.ld: from then on, every access to registers matters
        self._wgmma = False

    def takes(self, event: Accesses) -> bool:
        """Whether it takes many native accesses in one event: where kernels note them, which are loaded for many.

        >>> from tcemu.machine.events import Accesses, AccessTable
        >>> one = Accesses(0, 0, AccessTable({}), np.zeros(8, np.uint8))
        >>> tcemu.sanitizer.Sanitizer().takes(one) == (tcemu.backend.backend(1) == "numba")
        True
        """
        if not self._takes:
            products = 1 + len(event.log) // _PRODUCT
            self._takes = backend(products) == "numba"
            if not self._takes:
                computed(products)
        return self._takes

    @property
    def errors(self) -> list[Report]:
        """The reports that are errors, not hints."""
        return [report for report in self.reports if report.severity == "error"]

    def __call__(self, event: Event) -> None:
        """Receive an event of the machine."""
        kind: Any = type(event)
        of_kind: Any = event  # which fields it has depends on its kind
        if kind is Accesses:
            batches = self._batches.get(event.block) or self._begin_batches(event.block)
            if batches is not None:
                self._round.add(batches, of_kind)
            return
        if kind is Issued:
            handlers = self._handlers.get(of_kind.by.block, _NONE).get(of_kind.instruction.opcode)
        elif kind is Accessed:
            what = of_kind.space, of_kind.writes, of_kind.order, of_kind.collective, of_kind.owner
            handlers = self._handlers.get(of_kind.by.block, _NONE).get(what)
        else:
            handlers = self._handlers.get(event.block, _NONE).get(kind)
        if self._round.batches is not None and self._round.waits(kind, event, handlers):
            return
        if handlers is None:
            self._pass_on(kind, event)
            return
        for handle in handlers:
            handle(event)

    def settle(self) -> None:
        """Report what waits for further events, because none comes any more: the launch calls this after an error.

        >>> watch = tcemu.sanitizer.Sanitizer("collect")
        >>> watch.settle()  # nothing waits yet
        >>> watch.reports
        []
        """
        self._round.end()

    def _pass_on(self, kind: type[Event], event: Event) -> None:
        """Pass on any event, such as the first one of a kind."""
        block = event.block
        if kind is BlockStarted and self.mode != "off":
            self._begin(event)  # type: ignore[arg-type]
        watching = self._watches.get(block)
        if watching is None:
            return
        watch, cluster = watching
        self._wgmma |= kind is WgmmaFenced or kind is WgmmaIssued or kind is Tcgen05Issued
        moved = event if cluster is None else cluster(event)
        if moved is not None:
            for handle in watch.of(kind, moved):
                handle(moved)
        if kind is BlockEnded:
            del self._watches[block]
            self._batches.pop(block, None)
            self._handlers.pop(block, None)
            if all(each is not watch for each, _ in self._watches.values()):
                watch.close()

    def _begin_batches(self, block: int) -> Batches | None:
        """What notes the native accesses of a block, if it is watched."""
        watching = self._watches.get(block)
        if watching is None:
            return None
        watch, cluster = watching
        place, label = (0, int) if cluster is None else cluster.placing(block)
        batches = self._batches[block] = Batches(watch.block, watch, self, place, label, self._rooms)
        return batches

    def hears(self, kind: type[Event]) -> bool:
        """Whether it needs events of this kind now."""
        return self._wgmma if kind is Touched else kind is not Computed

    def follows(self, instruction: Instruction, whole: bool = True) -> bool:
        """Whether it needs to know when a `whole` warp, or part of one, issues this; once it has seen a block start."""
        return any(needs(instruction, whole) for needs in self._needs)

    def _begin(self, event: BlockStarted) -> None:
        """Watch a block or, from its first block on, a cluster."""
        if self._grid is None or self._grid.memory is not event.memory:
            written = ((first, end, self._outputs.get(name)) for first, end, name in event.arrays)
            outputs = tuple((first, end, kernel) for first, end, kernel in written if kernel is not None)
            self._grid = Grid(event.memory, event.arrays, outputs, event.pointers)
        self._grid.launch_of[event.block], self._grid.kernels[event.launch] = event.launch, event.kernel
        if not event.cluster:
            watch = self._sections(Block(event, self._tell, self._tiles), event)
            self._watches[event.block], self._handlers[event.block] = (watch, None), watch.handlers
        elif event.block == event.cluster[0]:
            cluster = Cluster(event, self._tell, self._tiles)
            watch = self._sections(cluster.block, event)
            for number in event.cluster:
                self._watches[number] = watch, cluster

    def _sections(self, block: Block, event: BlockStarted) -> Watch:
        """The handlers of a block's sections."""
        assert self._grid is not None  # noqa: S101 - for the types: it begins with the first block
        block.join(self._grid)
        self._grid.members.setdefault(event.launch, []).append(block.neighbour.number)
        for launch in event.ended:
            row = block.neighbour.learn(self._grid.ends(launch))
            for warp, lanes in enumerate(block.clocks.present):
                block.clocks.acquire(warp, lanes, row)
        watch = Watch(block, self._sections_of)
        watch.add(BarrierCompleted, block.flush)
        for last in (BlockEnded, Stuck, Faulted):
            watch.add(last, block.end)
        self._needs = self._needs or watch.needs
        return watch

    def _tell(self, report: Report) -> None:
        before = self._known.get(report.key)
        if before is not None:
            before.count += 1
            return
        self._known[report.key] = report
        self.reports.append(report)
        if report.severity != "error":
            return
        if self.mode == "raise":
            error = UndefinedBehaviour(str(report))
            error.report = report
            raise error
        if self.mode == "warn":
            file = cell(report.site.file) or report.site.file
            warnings.warn_explicit(str(report), SanitizerWarning, file, report.site.line)

    def __repr__(self) -> str:
        return f"<sanitizer, mode {self.mode}: {counted(len(self.reports), 'report')}>"
