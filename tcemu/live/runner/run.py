"""tcemu.live.run: one instruction on the GPU, with the contract of tcemu.run."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy.typing as npt

from tcemu.errors import GpuUnavailable, IllegalInstruction, TargetError, listing
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.parse import parse
from tcemu.instructions.targets import target_named
from tcemu.live.process import client
from tcemu.live.process.device import Device, device
from tcemu.live.runner.call import perform
from tcemu.live.runner.families import MANNERS
from tcemu.live.runner.operands import Call


def run(
    instruction: str | Instruction,
    *operands: npt.ArrayLike,
    target: str | None = None,
    shared: npt.ArrayLike | None = None,
    memory: npt.ArrayLike | None = None,
) -> Any:
    """Execute one PTX instruction on the GPU and return its destination; the contract is that of tcemu.run.

    Operands, shapes, dtypes, broadcasting and errors are those of tcemu.run; wrong operands never reach the GPU. A
    store changes `shared` or `memory` in place; warps that share one of these store one after another. `target` may be
    left out; a chip other than the GPU's is an error. The emulator executes loads, stores and wgmma first, because it
    checks every address.

    Raises what tcemu.run raises, GpuUnavailable (no GPU, or one that lacks the instruction) and GpuError (the launch
    failed; the next call works again).

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> a, b, c = (np.zeros((32, mma.fragments[role].registers), np.uint32) for role in "abc")
    >>> tcemu.live.run(mma, a, b, c).shape  # on a GPU  # doctest: +SKIP
    (32, 4)
    """
    chip = device()
    parsed = on_gpu(instruction, _own(chip, target))
    return perform(Call(parsed, chip, operands, given_memories(shared, memory)), client.ask)


def given_memories(shared: npt.ArrayLike | None, memory: npt.ArrayLike | None) -> dict[str, Any]:
    """The memories that are given, by name."""
    return {name: array for name, array in (("shared", shared), ("memory", memory)) if array is not None}


def _own(chip: Device, target: str | None) -> str:
    """The target to generate code for. Raises TargetError if `target` is not this GPU's."""
    if target is None:
        return chip.target
    if not isinstance(target, str) or target_named(target).number != chip.chip.number:
        raise TargetError(f"a GPU answers for its own target only: it is {chip.name}, {chip.target}, not {target}")
    return str(target_named(target))


@lru_cache(maxsize=4096)
def _on_gpu(instruction: str | Instruction, target: str) -> Instruction:
    parsed = parse(instruction)
    if not parsed.gate.admits(target_named(target)):
        raise GpuUnavailable(f"{parsed} needs {parsed.gate.targets}; this GPU is {target}. tcemu.run emulates it.")
    if parsed.family not in MANNERS:
        raise GpuUnavailable(
            f"{parsed}: tcemu.live runs {listing(sorted(MANNERS), 'and')}, one at a time, but not {parsed.family}"
        )
    return parsed.on(target_named(target))


def on_gpu(instruction: str | Instruction, target: str) -> Instruction:
    """The instruction as it is on the target. Raises IllegalInstruction, or GpuUnavailable if it cannot run there."""
    try:
        return _on_gpu(instruction, target)
    except TypeError:  # an unhashable argument is not text
        raise IllegalInstruction(f"an instruction must be a string; got {type(instruction).__name__}") from None
