"""Mistakes of kernels that fill the fragments of mma.sync by hand: what D becomes with each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.instructions import Instruction, parse, run

Array = npt.NDArray[Any]
#: The registers of A and B in each step along K.
Held = dict[str, list[Array]]

#: Other registers in the place of the right ones, by the name of the mistake.
_OTHERS: tuple[tuple[str, str, Sequence[int]], ...] = (
    ("a", "a1 and a2 are swapped: a1 is 8 rows further down, a2 further along k.", (0, 2, 1, 3)),
    ("a", "a1 and a3 repeat a0 and a2: they are 8 rows further down.", (0, 0, 2, 2)),
    ("a", "a2 and a3 repeat a0 and a1: they are further along k.", (0, 1, 0, 1)),
    ("b", "b0 and b1 are swapped: b1 is further along k.", (1, 0)),
    ("b", "b1 repeats b0: it is further along k.", (0, 0)),
)


def slips(
    opcode: str, a: Array, b: Array, finish: Callable[[Array], Array] = np.asarray
) -> Iterator[tuple[str, Array]]:
    """What a warp's kernel for A (16, K) times B (K, 8) gives with a slip in its registers, its steps or its rows.

    `finish` makes of D what the kernel stores.

    >>> from tcemu.course.judges.slips import slips
    >>> opcode = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    >>> wrong = dict(slips(opcode, np.eye(16, dtype=np.float16), np.arange(128.0).reshape(16, 8).astype(np.float16)))
    >>> wrong["The rows g and g + 8 of D are swapped: d2 and d3 are 8 rows below d0 and d1."][0, :3]
    array([64., 65., 66.], dtype=float32)
    """
    instruction = parse(opcode)
    depth = instruction.fragments["a"].shape[-1]
    tiles = {"a": np.split(a, a.shape[1] // depth, axis=1), "b": np.split(b, len(b) // depth)}

    def held(role: str, change: Callable[[Array], Array] = np.asarray) -> list[Array]:
        return [instruction.fragments[role].pack(np.ascontiguousarray(change(tile))) for tile in tiles[role]]

    right: Held = {"a": held("a"), "b": held("b")}

    def made(**changed: list[Array]) -> Array:
        return finish(_chain(instruction, {**right, **changed}))

    for role, says, order in _OTHERS:
        yield says, made(**{role: [each[:, list(order)] for each in right[role]]})
    for role, what in (("a", "columns of A"), ("b", "rows of B")):
        name = role.upper()
        if len(tiles["a"]) > 1:
            yield (
                f"All steps multiply the same {what}: the address has to move along k.",
                (made(**{role: right[role][:1] * len(right[role])})),
            )
        if instruction.fragments[role].elements_per_register == 2:
            swapped = [each >> np.uint32(16) | each << np.uint32(16) for each in right[role]]
            yield (
                f"The two halves of each register of {name} are swapped: the lower k is in the low half.",
                (made(**{role: swapped})),
            )
            yield (
                f"Every 8 × 8 block of {name} is transposed: lane // 4 and lane % 4 have each other's part.",
                (made(**{role: held(role, _blocks_transposed)})),
            )
        else:
            yield (
                f"The bytes of each register of {name} are in reverse order: the lowest k is in the lowest byte.",
                (made(**{role: [each.byteswap() for each in right[role]]})),
            )
    steps = range(len(tiles["a"]))
    for only, says in ((steps[:1], "first"), (steps[-1:], "last")) if len(steps) > 1 else ():
        part = {role: [right[role][step] for step in only] for role in right}
        yield f"Only the {says} step along k is in the sum: the D of each is the C of the next.", made(**part)
    yield (
        "The rows g and g + 8 of D are swapped: d2 and d3 are 8 rows below d0 and d1.",
        (finish(np.roll(_chain(instruction, right), 8, axis=0))),
    )


def beyond(known: Iterable[tuple[str, Any]], more: Iterable[tuple[str, Array]]) -> Iterator[tuple[str, Any]]:
    """The known mistakes, and of the others those with which the answer is not that of a known one."""
    answers = []
    for says, gives in known:
        answers.append(np.asarray(gives).tobytes())
        yield says, gives
    for says, gives in more:
        if np.asarray(gives).tobytes() not in answers:
            yield says, gives


def _chain(instruction: Instruction, held: Held) -> Array:
    """D after all steps, from zero."""
    total = np.zeros((32, 4), np.uint32)
    for a, b in zip(held["a"], held["b"], strict=True):
        total = run(instruction, a, b, total)
    return np.asarray(instruction.fragments["d"].unpack(total))


def _blocks_transposed(tile: Array) -> Array:
    rows, columns = tile.shape
    blocks = tile.reshape(rows // 8, 8, columns // 8, 8)
    return blocks.transpose(0, 3, 2, 1).reshape(rows, columns)
