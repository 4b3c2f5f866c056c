"""Cases: an instruction on one class of inputs, complete, so that a GPU or the emulator can answer it.

The operands follow the family's own spelling of them; nothing here knows a family by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.memory import SPACES
from tcemu.instructions.run import run as emulate
from tcemu.instructions.table import family_of
from tcemu.live import inputs
from tcemu.live.form import words
from tcemu.live.inputs import CLASSES, Array
from tcemu.live.run import run as on_gpu
from tcemu.live.table import MAKERS

__all__ = ["CLASSES", "Case", "cases", "kinds"]


@dataclass(frozen=True)
class Case:
    """One call: its key in a golden file, and what it is given."""

    key: str
    instruction: Instruction
    operands: tuple[Any, ...]
    #: The argument that holds the bytes, "shared" or "memory", and the bytes; empty where it touches none.
    space: str = ""
    bytes: Array | None = None

    def answer(self, run: Callable[..., Any]) -> Array:
        """What `run` answers: the destination registers, or the bytes after a store. The case stays as it is."""
        if self.bytes is None:
            return run(self.instruction, *self.operands)  # type: ignore[no-any-return]
        held = self.bytes.copy()
        found = run(self.instruction, *self.operands, **{self.space: held})
        return held if found is None else found

    @property
    def outputs(self) -> int:
        """Elements of the matrices that come out."""
        fragment = self.instruction.fragments.get("d") or next(iter(self.instruction.fragments.values()))
        size = 1
        for extent in fragment.shape:
            size *= extent
        return self.warps * size

    @property
    def warps(self) -> int:
        """How many warps there are."""
        return len(self.operands[0])

    def only(self, warp: int) -> Case:
        """The case with one of its warps."""
        some = slice(warp, warp + 1)
        operands = tuple(value[some] if hasattr(value, "ndim") else value for value in self.operands)
        return replace(self, operands=operands, bytes=None if self.bytes is None else self.bytes[some])


def emulator(target: str) -> Callable[..., Any]:
    """What answers a case as the emulator does on `target`."""
    return lambda instruction, *operands, **memories: emulate(instruction, *operands, target=target, **memories)


def gpu(instruction: Instruction, *operands: Any, **memories: Any) -> Any:
    """What answers a case on the GPU."""
    return on_gpu(instruction, *operands, **memories)


def kinds(instruction: Instruction) -> tuple[str, ...]:
    """The classes of inputs that differ for an instruction: what computes with floats has all, the others one."""
    return inputs.classes(instruction) if family_of(instruction).computes else ("bits",)


def cases(instruction: Instruction, kind: str, warps: int, series: str = "golden") -> Iterator[Case]:
    """The cases of one class of inputs: one for each value of an immediate that says whose registers count."""
    family, own = family_of(instruction), MAKERS[instruction.family].cases
    if own:
        for told, operands, bytes_ in own(instruction, kind, warps, series):
            yield Case(f"{instruction}|{kind}|{told}", instruction, operands, "shared", bytes_)
        return
    make = _computing if family.computes else _moving
    yield from make(instruction, family, kind, warps, series)


def _computing(instruction: Instruction, family: Family, kind: str, warps: int, series: str) -> Iterator[Case]:
    _, sources = words(instruction)
    choices = [_CHOICES[word](instruction) for word in sources if word in _CHOICES]
    for chosen in product(*choices):
        immediates = iter(chosen)
        number = _number(chosen)
        key = f"{series} {number}" if number else series
        operands: list[Any] = []
        for word in sources:
            if word in _CHOICES:
                operands.append(next(immediates))
            elif word in _REGISTERS:
                operands.append(_REGISTERS[word](instruction, kind, f"{series} {number}|{instruction}|{kind}", warps))
            else:
                name = f"{key}|{instruction.opcode}|{kind}|{word}"
                operands.append(inputs.registers(instruction.fragments[word], kind, name, warps))
        told = f"|{number}" if choices else ""
        yield Case(f"{instruction}|{kind}{told}", instruction, tuple(operands))


def _number(chosen: tuple[Any, ...]) -> str | int:
    """Immediates in a key: the selector as a number, pairs as their digits."""
    if all(isinstance(each, int) for each in chosen):
        return chosen[0] if chosen else 0
    return " ".join("".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in chosen)


def _picks(role: str) -> Callable[[Instruction], list[Any]]:
    """Every byte-id with every thread-id."""

    def picks(instruction: Instruction) -> list[Any]:
        threads = instruction.fragments[role].shape[0]
        return [(byte, thread) for byte in range(0, 4, instruction.facts.scales) for thread in range(threads)]

    return picks


#: Immediates that say whose registers count: all their values.
_CHOICES: dict[str, Callable[[Instruction], list[Any]]] = {
    "f": lambda instruction: list(range(instruction.fragments["e"].shape[0])),
    "pick_a": _picks("scale_a"),
    "pick_b": _picks("scale_b"),
}
#: Registers that are no matrix of numbers.
_REGISTERS: dict[str, Callable[[Instruction, str, str, int], Array]] = {
    "e": lambda instruction, _kind, key, warps: inputs.metadata(instruction, key, warps),
    "scale_a": lambda instruction, kind, key, warps: inputs.scales(instruction, kind, f"{key}|scale_a", warps),
    "scale_b": lambda instruction, kind, key, warps: inputs.scales(instruction, kind, f"{key}|scale_b", warps),
}


def _moving(instruction: Instruction, family: Family, kind: str, warps: int, series: str) -> Iterator[Case]:
    _, sources = words(instruction)
    key = f"{series}|{instruction.opcode}"
    spaces = [name for name in SPACES[instruction.words.get("ss", "")] if name in family.memories]
    for space in spaces or [""]:
        operands = tuple(_moved(instruction, word, key, warps, space) for word in sources)
        told = f"|{space}" if len(spaces) > 1 else ""  # a generic address can lie in either
        bytes_ = inputs.memory(key, warps) if space else None
        yield Case(f"{instruction}|{kind}{told}", instruction, operands, space, bytes_)


#: An H200 wants more of a wmma.load from shared memory than the manual does: it moves lines as ldmatrix does, and
#: faults (misaligned address) where one does not start at a multiple of 16 bytes, whatever the fragment's size.
_ALIGNED = {"shared": 16}


def _moved(instruction: Instruction, word: str, key: str, warps: int, space: str) -> Array:
    """An operand of a load or store."""
    if word in instruction.fragments:
        return inputs.held(instruction.fragments[word], key, warps)
    if word == "addresses":
        return inputs.addresses(key, warps)
    fragment = _only(instruction)
    align = _ALIGNED.get(space, 1)
    if word == "pointer":
        return inputs.pointer(fragment, key, warps, align)
    return inputs.stride(fragment, instruction.words["layout"], key, warps, align)


def _only(instruction: Instruction) -> Any:
    (fragment,) = instruction.fragments.values()
    return fragment
