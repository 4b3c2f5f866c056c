"""The operands of a call as the kernel takes them.

The emulator's own checks find wrong operands, so the errors are the same. If a quick check here finds something odd,
the emulator executes the whole call, which raises the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import ArithmeticUnknown, OperandError, TcemuError
from tcemu.formats.arrays import as_array
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.mma_block_scale import byte_and_thread
from tcemu.instructions.mma_sp import k_of_stored, selector
from tcemu.instructions.multiply import broadcast
from tcemu.instructions.operand import Kind, Operand
from tcemu.instructions.run import run as emulate
from tcemu.instructions.table import family_of
from tcemu.live.process.device import Device
from tcemu.vectors.operands import as_given

Array = npt.NDArray[Any]
#: An operand as the kernel takes it, with its own leading axes, which count groups of lanes.
Part = tuple[Array, tuple[int, ...]]


@dataclass(frozen=True)
class Call:
    """One call of tcemu.live.run."""

    instruction: Instruction
    device: Device
    operands: tuple[Any, ...]
    memories: Mapping[str, Any] = field(default_factory=dict)

    def emulate(self, **memories: Any) -> Any:
        """The emulator's answer. Raises what tcemu.run raises."""
        return emulate(self.instruction, *self.operands, target=self.device.target, **{**self.memories, **memories})


def checked(call: Call) -> tuple[dict[str, Part], dict[str, str]]:
    """The checked operands by role, and the words of those that are part of the opcode."""
    if family_of(call.instruction).memories:
        # The emulator executes the call first, on copies: it is quick, and only it knows every byte that is accessed.
        call.emulate(**{name: _copy(bytes_) for name, bytes_ in call.memories.items()})
        return _taken(call)
    try:
        parts, texts = _taken(call)
        broadcast(call.instruction, {name: own for name, (_, own) in parts.items()})
        _check_metadata(call.instruction, parts, texts)
    except (TcemuError, TypeError, ValueError, IndexError) as wrong:
        with suppress(ArithmeticUnknown):
            call.emulate()
        raise wrong if isinstance(wrong, TcemuError) else OperandError(f"{call.instruction}: {wrong}") from None
    return parts, texts


def _taken(call: Call) -> tuple[dict[str, Part], dict[str, str]]:
    instruction, parts, texts = call.instruction, {}, {}
    operands = as_given(instruction, call.operands)
    least = sum(not operand.optional for operand in operands)
    if not least <= len(call.operands) <= len(operands) or (call.memories and not family_of(instruction).memories):
        raise OperandError(f"{instruction} takes {len(operands)} operands; got {len(call.operands)}")
    left_out = (None,) * (len(operands) - len(call.operands))
    for operand, value in zip(operands, (*call.operands, *left_out), strict=True):
        if operand.in_the_text:
            texts[operand.role] = _TEXT.get(operand.role, _plain)(instruction, operand, value)
        else:
            parts[operand.role] = _TAKE[operand.kind](instruction, operand, value)
    return parts, texts


def _check_metadata(instruction: Instruction, parts: Mapping[str, Part], texts: Mapping[str, str]) -> None:
    """Raise OperandError for illegal metadata, whose result is undefined."""
    if "e" in parts:
        held, _ = parts["e"]
        k_of_stored(instruction, held.reshape(-1, held.shape[-1]), int(texts["f"]))


def _copy(bytes_: Any) -> Any:
    """A copy to try a call on, writeable if the original is; the emulator rejects anything that is not an array."""
    if not isinstance(bytes_, np.ndarray):
        return bytes_
    copy = bytes_.copy()
    copy.flags.writeable = bytes_.flags.writeable
    return copy


# ---------------------------------------------------------------------------------------------------- by kind


def _registers(instruction: Instruction, operand: Operand, value: Any) -> Part:
    assert operand.fragment is not None  # noqa: S101 - registers have one
    array = operand.fragment.check(value)
    return array, array.shape[:-2]


def _one_register(instruction: Instruction, operand: Operand, value: Any) -> Part:
    assert operand.fragment is not None  # noqa: S101 - likewise
    array = operand.fragment.check(as_array(value, f"{instruction}: {operand.role}")[..., None])[..., 0]
    return array, array.shape[:-1]


def _addresses(instruction: Instruction, operand: Operand, value: Any) -> Part:
    """Addresses as uint32. Those of lanes that are not needed may be anything; the hardware ignores them too."""
    array = np.asarray(value)
    return (array.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32), array.shape[:-1]


def _stride(instruction: Instruction, operand: Operand, value: Any) -> Part:
    """The stride, by default the number of elements in a row, or in a column."""
    rows, columns = instruction.fragments[instruction.words["matrix"]].shape
    length = columns if instruction.words["layout"] == "row" else rows
    array = np.asarray(length if value is None else value)
    return array.astype(np.uint32), array.shape


def _one(dtype: Any) -> Callable[[Instruction, Operand, Any], Part]:
    """One value for each group."""

    def one(instruction: Instruction, operand: Operand, value: Any) -> Part:
        array = np.asarray(value)
        return array.astype(dtype), array.shape

    return one


_TAKE: dict[Kind, Callable[[Instruction, Operand, Any], Part]] = {
    "registers": _registers,
    "metadata": _one_register,
    "scale": _one_register,
    "address": _addresses,
    "pointer": _one(np.uint64),
    "stride": _stride,
    "descriptor": _one(np.uint64),
    "predicate": _one(np.uint32),
}


def _plain(instruction: Instruction, operand: Operand, value: Any) -> str:
    return str(int(value))


def _selector(instruction: Instruction, operand: Operand, value: Any) -> str:
    return str(selector(instruction, value))


def _pair(instruction: Instruction, operand: Operand, value: Any) -> str:
    byte, thread = byte_and_thread(instruction, operand.role.replace("pick", "scale"), value)
    return f"{{{byte}, {thread}}}"


#: Checks and writes the operands that are part of the instruction's text; all others are plain numbers.
_TEXT: dict[str, Callable[[Instruction, Operand, Any], str]] = {"f": _selector, "pick_a": _pair, "pick_b": _pair}
