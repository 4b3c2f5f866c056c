"""Whose results an instruction reads: a static analysis of a function, for observers that want to know it (Sourced).

What counts is which loads, and which instructions of the machine, the values in registers come from. What is computed
from a value in straight code comes from where the value comes from. For each register, the analysis keeps a set of
origins: an instruction, and how often it has been executed since. So a fragment that is loaded a step ahead, and moved
from register to register, comes from the load of the step before. Where ways meet, a register has the origins of both;
where a guard may leave an instruction out, those that it had before and the new ones.

What passes through local memory, and what calls pass, has no origins here. Nor do values that are older than `AGES`
executions of their instruction: a warp that issues in order has waited for later ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tcemu.simt import operations
from tcemu.simt.behind import OUT
from tcemu.simt.register_file import Slot
from tcemu.simt.steps import Access, Guard, Step
from tcemu.simt.touches import registers_of, slots_of

if TYPE_CHECKING:
    from tcemu.simt.program import Program

#: An instruction, by its number, and how often it has been executed since.
Origin: TypeAlias = tuple[int, int]
Origins: TypeAlias = frozenset[Origin]
#: Results that are older than so many executions of their instruction are not followed.
AGES = 4
_NONE: Origins = frozenset()


class Part(NamedTuple):
    """What an instruction does with registers: those that it reads and writes, and whether a guard may leave it out.

    `begins`: what it writes comes from the instruction itself, and not from where the values it reads come from.
    """

    number: int
    reads: tuple[Slot, ...]
    writes: tuple[Slot, ...]
    guarded: bool
    begins: bool


class Flow:
    """For each instruction of a function that reads registers, the origins of what it reads."""

    def __init__(self, program: Program) -> None:
        self._parts = [tuple(parts_of(program, number)) for number in range(len(program.blocks))]
        self._follows = [[each for each in ways if each != OUT] for ways in program.ways.follows]
        self._chains, self._alive = self._chained(), self._read_later()
        self._entries: dict[int, dict[Slot, Origins]] = {0: {}}
        self._origins: dict[int, Origins] = {}
        self._solve()
        self.sources = {number: tuple(sorted(origins)) for number, origins in self._origins.items()}

    def _chained(self) -> dict[int, list[int]]:
        """By their first blocks, blocks that always follow each other: ways part and meet only between chains."""
        before: dict[int, set[int]] = defaultdict(set)
        for number, ways in enumerate(self._follows):
            for each in ways:
                before[each].add(number)
        chains: dict[int, list[int]] = {}
        heads = [
            number for number in range(len(self._follows))
            if number == 0 or len(before[number]) != 1 or len(self._follows[next(iter(before[number]))]) != 1
        ]  # fmt: skip
        for head in heads:
            chain = chains[head] = [head]
            while len(self._follows[chain[-1]]) == 1 and self._follows[chain[-1]][0] not in heads:
                chain.append(self._follows[chain[-1]][0])
        return chains

    def _read_later(self) -> list[set[Slot]]:
        """By block, the registers that it or a block after it reads before they are written again."""
        read: list[set[Slot]] = []
        kept: list[set[Slot]] = []
        for parts in self._parts:
            read.append(set())
            kept.append(set())
            for part in parts:
                read[-1].update(each for each in part.reads if each not in kept[-1])
                kept[-1].update(() if part.guarded else part.writes)
        alive, before = [set(each) for each in read], -1
        while before != (before := sum(map(len, alive))):
            for number in reversed(range(len(alive))):
                for each in self._follows[number]:
                    alive[number] |= alive[each] - kept[number]
        return alive

    def _solve(self) -> None:
        """Go through the chains until nothing more comes to any of them."""
        waiting = {0}
        while waiting:
            head = min(waiting)
            waiting.discard(head)
            state = self._through(head)
            for each in self._follows[self._chains[head][-1]]:
                if self._merge(each, state):
                    waiting.add(each)

    def _merge(self, head: int, state: dict[Slot, Origins]) -> bool:
        """A way leads to a chain; whether it brings anything new."""
        new, alive = head not in self._entries, self._alive[head]
        entry = self._entries.setdefault(head, {})
        for slot, origins in state.items():
            held = entry.get(slot, _NONE)
            if slot in alive and not origins <= held:
                entry[slot], new = held | origins, True
        return new

    def _through(self, head: int) -> dict[Slot, Origins]:
        """The registers' origins behind a chain; note what its instructions read."""
        state = _State(self._entries[head])
        for block in self._chains[head]:
            for part in self._parts[block]:
                origins = state.read(part.reads)
                self._origins[part.number] = self._origins.get(part.number, _NONE) | origins
                if part.begins:
                    state.age(part.number, part.guarded)
                    origins = frozenset({(part.number, 0)})
                for slot in part.writes:
                    state.write(slot, origins | state.read((slot,)) if part.guarded else origins)
        return state.origins


class _State:
    """The origins of registers at a place in the code."""

    def __init__(self, origins: dict[Slot, Origins]) -> None:
        self.origins = dict(origins)
        #: by instruction, registers that may have it among their origins
        self._slots: dict[int, set[Slot]] = defaultdict(set)
        for slot, held in origins.items():
            for number, _ in held:
                self._slots[number].add(slot)

    def read(self, slots: Sequence[Slot]) -> Origins:
        """The origins of several registers."""
        held = [self.origins[slot] for slot in slots if slot in self.origins]
        return held[0] if len(held) == 1 else frozenset().union(*held)

    def write(self, slot: Slot, origins: Origins) -> None:
        """A register gets other origins."""
        if not origins:
            self.origins.pop(slot, None)
            return
        self.origins[slot] = origins
        for number, _ in origins:
            self._slots[number].add(slot)

    def age(self, number: int, guarded: bool) -> None:
        """An instruction is executed once more, or perhaps."""
        for slot in self._slots.get(number, ()):
            held = self.origins.get(slot, _NONE)
            own = {each for each in held if each[0] == number}
            if own:
                later = {(number, age + 1) for _, age in own if age + 1 < AGES}
                self.write(slot, (held if guarded else held - own) | later)


def parts_of(program: Program, number: int) -> Iterator[Part]:
    """What the instructions of a block do with registers."""
    block = program.blocks[number]
    if block.operation is None:
        yield from map(_of_step, block.steps)
        return
    text, guard = program.function.body[block.first], block.operation.guard
    steps, instruction = program.lowering.steps(block.first, text), program.instruction(text)
    if steps is not None:
        yield from map(_of_step, steps)
    elif instruction is not None:
        _, ins, results, arguments = operations.matched(instruction, text.operands)
        both = [each for record, each in zip(ins, arguments, strict=True) if record.direction == "in out"]
        reads, writes = slots_of(program, arguments), slots_of(program, [*results, *both])
        yield Part(block.first, _with(reads, guard), tuple(writes), guard is not None, True)


def _of_step(step: Step) -> Part:
    reads, writes = registers_of(step)
    begins = isinstance(step, Access) and (step.machine or step.space in ("shared", "global", "generic"))
    return Part(step.number, _with(_only(reads), step.guard), tuple(_only(writes)), step.guard is not None, begins)


def _with(slots: Iterable[Slot], guard: Guard | None) -> tuple[Slot, ...]:
    return tuple(slots) if guard is None else (*slots, guard.slot)


def _only(sources: Iterable[Any]) -> Iterator[Slot]:
    return (each for each in sources if isinstance(each, Slot))
