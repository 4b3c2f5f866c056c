"""How the operands of a warp's instruction become one launch, and the launch's answer the instruction's.

What is wrong with operands is found by the emulator's own checks, so the words are the same. Where the quick look here
finds something odd, the emulator is asked to do the whole call, and raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import ArithmeticUnknown, GpuError, OperandError, TcemuError
from tcemu.formats.arrays import as_array
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.mma_block_scale import byte_and_thread
from tcemu.instructions.mma_sp import selector, stored_places
from tcemu.instructions.multiply import broadcast
from tcemu.instructions.run import run as emulate
from tcemu.live import ptx
from tcemu.live.device import Device
from tcemu.live.form import Form, words
from tcemu.live.job import Answer, Argument, Array, Job, given, wanted
from tcemu.live.words import MISALIGNED

Ask = Callable[[Job], Answer]

#: Most warps of one block in loads; in stores all warps of a memory are in one block, in their order.
_WARPS_A_BLOCK = 32


@dataclass(frozen=True)
class Call:
    """One call of tcemu.live.run."""

    instruction: Instruction
    family: Family
    device: Device
    operands: tuple[Any, ...]
    memories: Mapping[str, Any] = field(default_factory=dict)

    def emulate(self, **memories: Any) -> Any:
        """What the emulator answers, or raises."""
        return emulate(self.instruction, *self.operands, target=self.device.target, **{**self.memories, **memories})


# ---------------------------------------------------------------------------------------------------- registers only


def products(call: Call, ask: Ask, scalars: frozenset[str] = ptx.SCALARS) -> Any:
    """Registers in, registers out; immediates are part of the kernel's text."""
    instruction = call.instruction
    destination, sources = words(instruction)
    try:
        arrays, immediates = _read(call, sources)
        warps = broadcast(instruction, {name: own for name, (_, own) in arrays.items()})
    except (TcemuError, TypeError, ValueError, IndexError) as wrong:
        with suppress(ArithmeticUnknown):
            call.emulate()
        raise wrong if isinstance(wrong, TcemuError) else OperandError(f"{instruction}: {wrong}") from None
    form = Form(instruction, destination, sources, tuple(immediates.items()))
    (role,) = destination
    fragment = instruction.fragments[role]
    shape = (fragment.lanes, fragment.registers)
    if not prod(warps):
        return np.empty((*warps, *shape), fragment.container.register_dtype)
    arguments = {name: given(name, spread(array, own, warps)) for name, (array, own) in arrays.items()}
    arguments[role] = wanted(role, (prod(warps), *shape), fragment.container.register_dtype)
    arguments["start"] = given("start", np.arange(prod(warps) + 1, dtype=np.uint32))
    return ask(_job(call, form, arguments, prod(warps), scalars=scalars)).arrays[role].reshape(*warps, *shape)


def _read(call: Call, sources: tuple[str, ...]) -> tuple[dict[str, tuple[Array, tuple[int, ...]]], dict[str, str]]:
    """Register operands with their own warps, and immediates as they are written; checked."""
    instruction, arrays, immediates = call.instruction, {}, {}
    if call.memories or len(call.operands) != len(sources):
        raise OperandError(f"{instruction} takes {len(sources)} operands; got {len(call.operands)}")
    for word, operand in zip(sources, call.operands, strict=True):
        if word in _IMMEDIATES:
            immediates[word] = _IMMEDIATES[word](instruction, operand)
        elif word in ptx.SCALARS:
            array = instruction.fragments[word].check(as_array(operand, f"{instruction}: {word}")[..., None])[..., 0]
            arrays[word] = array, array.shape[:-1]
        else:
            array = instruction.fragments[word].check(operand)
            arrays[word] = array, array.shape[:-2]
    if "e" in arrays:  # metadata that is not legal has no defined result
        held = arrays["e"][0]
        stored_places(instruction, held.reshape(-1, held.shape[-1]), int(immediates["f"]))
    return arrays, immediates


def _pick(role: str) -> Callable[[Instruction, Any], str]:
    def written(instruction: Instruction, operand: Any) -> str:
        byte, thread = byte_and_thread(instruction, role, operand)
        return f"{{{byte}, {thread}}}"

    return written


#: Operands that PTX takes as numbers in the text.
_IMMEDIATES: dict[str, Callable[[Instruction, Any], str]] = {
    "f": lambda instruction, operand: str(selector(instruction, operand)),
    "pick_a": _pick("scale_a"),
    "pick_b": _pick("scale_b"),
}


def spread(array: Array, own: tuple[int, ...], warps: tuple[int, ...]) -> Array:
    """(all warps, ...) of an array (own warps, ...)."""
    rest = array.shape[len(own) :]
    return np.broadcast_to(array, (*warps, *rest)).reshape(prod(warps), *rest)


# ---------------------------------------------------------------------------------------------------- bytes


def moves(call: Call, ask: Ask, misaligned: str = "") -> Any:
    """Loads and stores. The emulator does the call first, on a copy: it is quick, and it checks every address.

    `misaligned` is what is known where the GPU refuses an alignment that the emulator, and so the manual, allows.
    """
    instruction = call.instruction
    copies = {name: _copy(bytes_) for name, bytes_ in call.memories.items()}
    expected = call.emulate(**copies)
    (space,) = call.memories
    bytes_: Array = call.memories[space]
    destination, sources = words(instruction)
    parts = _parts(call, sources)
    own = bytes_.shape[:-1]
    warps = broadcast(instruction, {**{name: shape for name, (_, shape) in parts.items()}, space: own})
    if not prod(warps):
        return expected
    form = Form(instruction, destination, sources, (), space)
    which = np.broadcast_to(np.arange(prod(own)).reshape(own), warps).reshape(-1)
    order = np.argsort(which, kind="stable")
    blocks, first = _blocks(which[order], form.stores)
    held = padded(bytes_.reshape(prod(own), bytes_.shape[-1]))
    if space == "shared":
        too_large(call, held)
    arguments = {name: given(name, spread(array, shape, warps)[order]) for name, (array, shape) in parts.items()}
    arguments["start"] = given("start", first.astype(np.uint32))
    arguments["which"] = given("which", which[order][first[:-1]].astype(np.uint32))
    arguments["size"] = Argument("size", "scalar", np.uint64(held.shape[-1]))
    arguments["bytes"] = Argument("bytes", "both" if form.stores else "in", held)
    for role in destination:
        fragment = instruction.fragments[role]
        shape = (prod(warps), fragment.lanes, fragment.registers)
        arguments[role] = wanted(role, shape, fragment.container.register_dtype)
    job = _job(call, form, arguments, blocks, held.shape[-1] if space == "shared" else 0)
    try:
        arrays = ask(job).arrays
    except GpuError as error:
        told = misaligned if MISALIGNED in str(error) else ""
        raise GpuError(f"{instruction}: {error}{told and f' {told}'}") from None
    if form.stores:
        bytes_[...] = arrays["bytes"][:, : bytes_.shape[-1]].reshape(bytes_.shape)
        return None
    (role,) = destination
    out = np.empty_like(arrays[role])
    out[order] = arrays[role]
    return out.reshape(*warps, *out.shape[1:])


def _copy(given_bytes: Any) -> Any:
    """A copy to try a call on, as writeable as what was given; what is no array is for the emulator to refuse."""
    if not isinstance(given_bytes, np.ndarray):
        return given_bytes
    copy = given_bytes.copy()
    copy.flags.writeable = given_bytes.flags.writeable
    return copy


def _parts(call: Call, sources: tuple[str, ...]) -> dict[str, tuple[Array, tuple[int, ...]]]:
    """Each operand as the kernel takes it, with its own warps. The emulator has checked them."""
    parts: dict[str, tuple[Array, tuple[int, ...]]] = {}
    for word, operand in zip(sources, (*call.operands, None), strict=False):
        if word in call.instruction.fragments:
            array = call.instruction.fragments[word].check(operand)
            parts[word] = array, array.shape[:-2]
        elif word == "addresses":
            array = np.asarray(operand)
            # lanes whose address does not count may hold anything; the hardware does not look at them either
            parts[word] = (array.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32), array.shape[:-1]
        else:
            array = np.asarray(_row_length(call.instruction) if operand is None else operand)
            parts[word] = array.astype({"pointer": np.uint64, "stride": np.uint32}[word]), array.shape
    return parts


def _row_length(instruction: Instruction) -> int:
    """The stride of a load or store that was given none: elements of a row, or of a column."""
    rows, columns = instruction.fragments[instruction.words["matrix"]].shape
    return columns if instruction.words["layout"] == "row" else rows


def _blocks(which: npt.NDArray[np.int64], stores: bool) -> tuple[int, npt.NDArray[np.int64]]:
    """How many blocks, and the first warp of each, for warps sorted by their memory."""
    change = np.flatnonzero(np.diff(which)) + 1
    cuts = {0, len(which), *change.tolist()}
    if not stores:
        cuts |= set(range(0, len(which), _WARPS_A_BLOCK))
    first = np.array(sorted(cuts))
    return len(first) - 1, first


def padded(bytes_: Array) -> Array:
    """Memories (n, bytes) filled up to a multiple of 64, so that each starts as aligned as the first."""
    size = bytes_.shape[-1]
    room = max(-(-size // 64) * 64, 64)
    if room == size:
        return np.ascontiguousarray(bytes_)
    held = np.zeros((len(bytes_), room), np.uint8)
    held[:, :size] = bytes_
    return held


def too_large(call: Call, held: Array) -> None:
    """Refuse more bytes than a block of this GPU has of shared memory."""
    if held.shape[-1] > call.device.shared:
        most = f"a block on {call.device.name} has at most {call.device.shared}"
        raise OperandError(f"{call.instruction}: shared= has {call.memories['shared'].shape[-1]} bytes; {most}")


def _job(
    call: Call,
    form: Form,
    arguments: dict[str, Argument],
    blocks: int,
    shared: int = 0,
    scalars: frozenset[str] = ptx.SCALARS,
) -> Job:
    code = ptx.kernel(form, call.device.target, scalars)
    ordered = tuple(arguments[name] for name in ptx.parameters(form))
    return Job("ptx", code, ptx.KERNEL, (blocks,), (ptx.LANES,), ordered, shared)

