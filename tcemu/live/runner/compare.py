"""tcemu.live.compare: the GPU and the emulator on the same operands, and the first bit in which they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic.words import KNOWN, in_words
from tcemu.errors import ArithmeticUnknown
from tcemu.instructions.explain import depth
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.run import run as emulate
from tcemu.instructions.targets import target_named
from tcemu.layouts import Fragment
from tcemu.live.process.device import device
from tcemu.live.runner.run import given_memories, on_gpu, run

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Difference:
    """The first bit in which two answers differ.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> a, b, c = (np.zeros((32, mma.fragments[role].registers), np.uint32) for role in "abc")
    >>> result = tcemu.live.compare(mma, a, b, c)  # on a GPU  # doctest: +SKIP
    >>> if result.first:  # doctest: +SKIP
    ...     print(found.first.lane, found.first.register, found.first.bit)
    """

    #: The warp's place in the leading axes; empty for one warp. Of a store: the memory's place.
    warp: tuple[int, ...]
    #: Lane, register and matrix element; None if the answer is memory.
    lane: int | None
    register: int | None
    row: int | None
    column: int | None
    #: Which of several matrices that the registers hold; 0 if there is one.
    matrix: int
    #: The byte's address if the answer is memory, otherwise None.
    byte: int | None
    #: The lowest bit that differs, of the register or of the byte.
    bit: int
    #: Register (or byte) and value of both; values are those of the element, None for a byte.
    gpu: int
    emulator: int
    gpu_value: float | int | None
    emulator_value: float | int | None

    def __str__(self) -> str:
        warp = f"warp {', '.join(map(str, self.warp))}, " if self.warp else ""
        if self.byte is not None:
            memory = f"memory {', '.join(map(str, self.warp))}, " if self.warp else ""
            both = f"the GPU has {self.gpu:#04x}, the emulator {self.emulator:#04x}"
            return f"{memory}byte {self.byte:#x}, bit {self.bit}: {both}"
        matrix = f"matrix {self.matrix}, " if self.matrix else ""
        return (
            f"{warp}lane {self.lane}, register {self.register}, bit {self.bit} "
            f"({matrix}row {self.row}, column {self.column}): the GPU has {self.gpu:#x}, {self.gpu_value!r}; "
            f"the emulator {self.emulator:#x}, {self.emulator_value!r}"
        )


@dataclass(frozen=True)
class Comparison:
    """What a comparison found; true if the answers are equal.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> a, b, c = (np.zeros((32, mma.fragments[role].registers), np.uint32) for role in "abc")
    >>> result = tcemu.live.compare(mma, a, b, c)  # on a GPU  # doctest: +SKIP
    >>> result.equal, result.compared, result.unit  # doctest: +SKIP
    (True, 128, 'registers')
    """

    opcode: str
    #: The GPU and its target.
    gpu: str
    target: str
    #: How many registers were compared, or bytes if the answer is memory.
    compared: int
    unit: str
    #: How many of them differ, and the first.
    differing: int
    first: Difference | None
    #: The row of the arithmetic table that the emulator used, and how it is known; empty if nothing is computed.
    arithmetic: str

    @property
    def equal(self) -> bool:
        """Whether all bits are equal."""
        return self.first is None

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        if self.first is None:
            return f"equal, {self.compared:,} {self.unit}"
        arithmetic = f"\narithmetic row: {self.arithmetic}" if self.arithmetic else ""
        return (
            f"{self.differing:,} of {self.compared:,} {self.unit} differ: {self.opcode} on {self.gpu}, {self.target}\n"
            f"first: {self.first}{arithmetic}"
        )

    def __repr__(self) -> str:
        return f"<{self}>"


def compare(
    instruction: str | Instruction,
    *operands: npt.ArrayLike,
    target: str | None = None,
    shared: npt.ArrayLike | None = None,
    memory: npt.ArrayLike | None = None,
) -> Comparison:
    """Run an instruction on the GPU and, for that GPU, in the emulator, and compare every bit of the answers.

    The operands are those of tcemu.run. A store works on copies: `shared` and `memory` do not change. Raises what
    tcemu.live.run and tcemu.run raise.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> a, b, c = (np.zeros((32, mma.fragments[role].registers), np.uint32) for role in "abc")
    >>> print(tcemu.live.compare(mma, a, b, c))  # on a GPU  # doctest: +SKIP
    equal, 128 registers
    """
    chip = device()
    memories = given_memories(shared, memory)
    for_gpu, for_emulator = ({name: _copy(array) for name, array in memories.items()} for _ in range(2))
    answer = run(instruction, *operands, target=target, **for_gpu)
    expected = emulate(instruction, *operands, target=target or chip.target, **for_emulator)
    parsed = on_gpu(instruction, target or chip.target)
    if answer is None:
        ((name, answer),) = for_gpu.items()
        expected = for_emulator[name]
    return judge(parsed, answer, expected, str(chip.name), target or chip.target)


def judge(instruction: Instruction, answer: Array, expected: Array, gpu: str, target: str) -> Comparison:
    """Compare two answers: registers (..., lanes, registers), or bytes (..., bytes) after a store."""
    stores = answer.dtype == np.uint8
    wrong = np.argwhere(answer != expected)
    first = None
    if len(wrong):
        place = tuple(int(index) for index in wrong[0])
        first = (_byte if stores else _register)(instruction, place, int(answer[place]), int(expected[place]))
    arithmetic = arithmetic_of(instruction, target)
    unit = "bytes" if stores else "registers"
    return Comparison(instruction.opcode, gpu, target, answer.size, unit, len(wrong), first, arithmetic)


def arithmetic_of(instruction: Instruction, target: str) -> str:
    """The row of arithmetic that the emulator used, in words; empty if nothing is computed."""
    if not {"a", "b", "c", "d"} <= set(instruction.types):
        return ""
    try:
        row = instruction.arithmetic(target_named(target))
    except ArithmeticUnknown as unknown:
        return str(unknown)
    note = f" {row.note}" if row.note else ""
    return f"{in_words(row.model, depth(instruction))}; {row.known}: {KNOWN[row.known]}.{note}"


def _register(instruction: Instruction, place: tuple[int, ...], gpu: int, emulator: int) -> Difference:
    *warp, lane, register = place
    fragments = instruction.fragments
    (fragment,) = [fragments["d"]] if "d" in fragments else fragments.values()
    bit = _lowest(gpu ^ emulator)
    element = min(bit // fragment.container.width, fragment.elements_per_register - 1)
    *batch, row, column = fragment.position(lane, register, element)
    values = [_value(fragment, word, element) for word in (gpu, emulator)]
    matrix = batch[0] if batch else 0
    return Difference(tuple(warp), lane, register, row, column, matrix, None, bit, gpu, emulator, *values)


def _value(fragment: Fragment, word: int, element: int) -> Any:
    patterns = fragment.container.unpack(np.array([word], fragment.container.register_dtype))
    return fragment.format.decode(patterns[element]).item()


def _byte(instruction: Instruction, place: tuple[int, ...], gpu: int, emulator: int) -> Difference:
    *warp, byte = place
    return Difference(tuple(warp), None, None, None, None, 0, byte, _lowest(gpu ^ emulator), gpu, emulator, None, None)


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
