"""Turning a call into one launch, and the launch's result into the instruction's answer."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import GpuError, OperandError
from tcemu.instructions.multiply import broadcast
from tcemu.instructions.operand import Operand
from tcemu.live.process.job import Argument, Array, Job, Result, filled, wanted
from tcemu.live.process.troubles import MISALIGNED
from tcemu.live.runner.families import MANNERS
from tcemu.live.runner.kernel import NAME, OUT, Kernel, code
from tcemu.live.runner.operands import Call, checked
from tcemu.vectors.operands import as_given, written

Ask = Callable[[Job], Result]
#: The most groups of one block in loads; all stores to one memory are in one block, in order.
_GROUPS_A_BLOCK = 32


def perform(call: Call, ask: Ask) -> Any:
    """The answer to a call, which `ask` launches: registers, or None after a store."""
    instruction, out = call.instruction, written(call.instruction)
    parts, texts = checked(call)
    (space, bytes_), *_ = [*call.memories.items(), ("", None)]
    own = bytes_.shape[:-1] if space else ()
    shapes = {name: shape for name, (_, shape) in parts.items()} | ({space: own} if space else {})
    groups = broadcast(instruction, shapes)
    if not prod(groups):
        return _empty(out, groups)
    described = any(each.role == "a" and each.kind == "descriptor" for each in as_given(instruction, call.operands))
    kernel = Kernel(instruction, call.device.target, described, tuple(texts.items()), space)
    arguments, order = _memory(call, space, bytes_, groups) if space else _no_memory(prod(groups))
    arguments |= {name: filled(name, _spread(array, shape, groups)[order]) for name, (array, shape) in parts.items()}
    if out:
        empty = _empty(out, (prod(groups),))
        arguments[OUT] = wanted(OUT, empty.shape, empty.dtype)
    ordered = tuple(arguments[name] for name in kernel.parameters)
    blocks = len(arguments["start"].value) - 1
    shared = arguments["bytes"].value.shape[-1] if space == "shared" else 0
    job = Job("ptx", code(kernel), NAME, (blocks,), (instruction.lanes,), ordered, shared)
    arrays = _asked(call, ask, job)
    if out is None:
        bytes_[...] = arrays["bytes"][:, : bytes_.shape[-1]].reshape(bytes_.shape)
        return None
    answer = np.empty_like(arrays[OUT])
    answer[order] = arrays[OUT]
    return answer.reshape(*groups, *answer.shape[1:])


def _asked(call: Call, ask: Ask, job: Job) -> dict[str, Array]:
    try:
        return ask(job).arrays
    except GpuError as error:
        if not call.memories:
            raise
        known = MANNERS[call.instruction.family].misaligned if MISALIGNED in str(error) else ""
        raise GpuError(f"{call.instruction}: {error}{known and f' {known}'}") from None


def _empty(out: Operand | None, groups: tuple[int, ...]) -> Any:
    """Registers for an answer; None for a store."""
    if out is None:
        return None
    assert out.fragment is not None  # noqa: S101 - what is written is registers
    fragment = out.fragment
    return np.empty((*groups, fragment.lanes, fragment.registers), fragment.container.register_dtype)


def _spread(array: Array, own: tuple[int, ...], groups: tuple[int, ...]) -> Array:
    """(all groups, ...) of an array (own groups, ...)."""
    rest = array.shape[len(own) :]
    return np.broadcast_to(array, (*groups, *rest)).reshape(prod(groups), *rest)


# ---------------------------------------------------------------------------------------------------- bytes


def _no_memory(groups: int) -> tuple[dict[str, Argument], Any]:
    """A block for each group."""
    return {"start": filled("start", np.arange(groups + 1, dtype=np.uint32))}, slice(None)


def _memory(call: Call, space: str, bytes_: Array, groups: tuple[int, ...]) -> tuple[dict[str, Argument], Any]:
    """The bytes, the groups of each block and the memory that they see, and the order in which the groups run."""
    stores = written(call.instruction) is None
    own = bytes_.shape[:-1]
    which = np.broadcast_to(np.arange(prod(own)).reshape(own), groups).reshape(-1)
    order = np.argsort(which, kind="stable")
    first = _blocks(which[order], stores)
    held = _padded(bytes_.reshape(prod(own), bytes_.shape[-1]))
    if space == "shared" and held.shape[-1] > call.device.shared:
        most = f"a block on {call.device.name} has at most {call.device.shared}"
        raise OperandError(f"{call.instruction}: shared= has {bytes_.shape[-1]} bytes, but {most}")
    arguments = {
        "start": filled("start", first.astype(np.uint32)),
        "which": filled("which", which[order][first[:-1]].astype(np.uint32)),
        "size": Argument("size", "scalar", np.uint64(held.shape[-1])),
        "bytes": Argument("bytes", "both" if stores else "in", held),
    }
    return arguments, order


def _blocks(which: npt.NDArray[np.int64], stores: bool) -> npt.NDArray[np.int64]:
    """The first group of each block, and the end, for groups sorted by their memory."""
    change = np.flatnonzero(np.diff(which)) + 1
    cuts = {0, len(which), *change.tolist()}
    if not stores:
        cuts |= set(range(0, len(which), _GROUPS_A_BLOCK))
    return np.array(sorted(cuts))


def _padded(bytes_: Array) -> Array:
    """Memories (n, bytes) padded to a multiple of 64, so that each is aligned like the first."""
    size = bytes_.shape[-1]
    room = max(-(-size // 64) * 64, 64)
    if room == size:
        return np.ascontiguousarray(bytes_)
    held = np.zeros((len(bytes_), room), np.uint8)
    held[:, :size] = bytes_
    return held
