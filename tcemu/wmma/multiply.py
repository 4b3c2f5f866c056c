"""mma_sync and bmma_sync, D = A B + C on fragments, and the rounding to tf32."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import FormatError, IllegalInstruction, OperandError, listing
from tcemu.formats import lookup
from tcemu.formats.arrays import as_array
from tcemu.instructions import Instruction, run, target_named
from tcemu.instructions.wmma import MMA
from tcemu.wmma.elements import Elements
from tcemu.wmma.fragment import expect, fragment
from tcemu.wmma.kind import GUIDE
from tcemu.wmma.names import (
    ACCUMULATE_OPERATIONS,
    BIT_OPERATIONS,
    BY_FORMAT,
    FLOAT,
    Tag,
    accumulator,
    matrix_a,
    matrix_b,
    tag,
)

Fragments = Mapping[str, fragment]
_USES = {"d": accumulator, "a": matrix_a, "b": matrix_b, "c": accumulator}
_NUMBERS = {"d": "first", "a": "second", "b": "third", "c": "fourth"}


def mma_sync(d: fragment, a: fragment, b: fragment, c: fragment, satf: bool = False) -> None:
    """D = A B + C, bit for bit as the fragments' target computes it. d may be the same fragment as c.

    `satf` (integers only) clamps to the range of int instead of wrapping. tf32 uses only the upper 19 bits of each
    float, so what :func:`float_to_tf32` has not rounded is truncated.

    Raises OperandError (wrong uses, shapes or targets, an empty fragment), IllegalInstruction (types that do not match)
    and ArithmeticUnknown. (CUDA C++ Programming Guide, Warp Matrix Functions; PTX ISA 9.7.14.4.5)

    >>> from tcemu import wmma
    >>> a = wmma.fragment(wmma.matrix_a, 16, 16, 16, wmma.half, wmma.row_major)
    >>> b = wmma.fragment(wmma.matrix_b, 16, 16, 16, wmma.half, wmma.col_major)
    >>> acc = wmma.fragment(wmma.accumulator, 16, 16, 16, float)
    >>> for each, value in ((a, 2), (b, 0.25), (acc, 1)):
    ...     wmma.fill_fragment(each, value)
    >>> wmma.mma_sync(acc, a, b, acc)
    >>> acc.x[0, 0]  # 1 + 16 * 2 * 0.25
    np.float32(9.0)
    """
    fragments = _checked("mma_sync", {"d": d, "a": a, "b": b, "c": c})
    if not isinstance(satf, bool | np.bool_):
        raise OperandError(f"mma_sync: satf must be True or False; got an object of type {type(satf).__name__}")
    if a.element_type.format == "b1":
        raise IllegalInstruction(
            "mma_sync does not multiply single bits: bmma_sync(d, a, b, c, op) does, with op "
            f"{listing(map(repr, BIT_OPERATIONS))} ({GUIDE})"
        )
    _multiply("mma_sync", fragments, {"satfinite": "satfinite"} if satf else {})


def bmma_sync(
    d: fragment,
    a: fragment,
    b: fragment,
    c: fragment,
    op: Tag | str = BIT_OPERATIONS[0],
    accumulate: Tag | str = ACCUMULATE_OPERATIONS[0],
) -> None:
    """D = popc(A op B) + C on single bits. d may be the same fragment as c.

    `op` is experimental.bmmaBitOpXOR or, from sm_80 on, experimental.bmmaBitOpAND.

    Raises the same errors as mma_sync. (CUDA C++ Programming Guide, Warp Matrix Functions; PTX ISA 9.7.14.4.5)

    >>> from tcemu import wmma
    >>> bits = wmma.experimental.precision.b1
    >>> a = wmma.fragment(wmma.matrix_a, 8, 8, 128, bits, wmma.row_major)
    >>> b = wmma.fragment(wmma.matrix_b, 8, 8, 128, bits, wmma.col_major)
    >>> acc = wmma.fragment(wmma.accumulator, 8, 8, 128, int)
    >>> for each, value in ((a, 1), (b, 0), (acc, 0)):
    ...     wmma.fill_fragment(each, value)
    >>> wmma.bmma_sync(acc, a, b, acc)
    >>> acc.x[0, 0]  # all 128 bits differ
    np.int32(128)
    """
    fragments = _checked("bmma_sync", {"d": d, "a": a, "b": b, "c": c})
    word = tag(op, BIT_OPERATIONS, "bmma_sync: op").word
    tag(accumulate, ACCUMULATE_OPERATIONS, "bmma_sync: the accumulate operation")
    if a.element_type.format != "b1":
        raise IllegalInstruction(
            f"bmma_sync multiplies single bits, {BY_FORMAT['b1']}; {a.element_type} is for mma_sync(d, a, b, c) "
            f"({GUIDE})"
        )
    _multiply("bmma_sync", fragments, {"op": word})


def _multiply(call: str, fragments: Fragments, options: Mapping[str, str]) -> None:
    instruction = _instruction(call, fragments, options)
    if not instruction.gate.admits(target_named(fragments["d"].target)):
        which = "".join(f" with {each!r}" for each in BIT_OPERATIONS if each.word in options.values())
        raise IllegalInstruction(
            f"{call}{which} does not exist on {fragments['d'].target}; it needs {instruction.gate.targets} ({GUIDE})"
        )
    registers = [fragments[role].read() for role in "abc"]
    fragments["d"].write(run(instruction, *registers, target=fragments["d"].target))


def _checked(call: str, arguments: dict[str, Any]) -> Fragments:
    """The fragments by role, with the right uses, the same shape and the same target."""
    for role, use in _USES.items():
        frag = expect(arguments[role], f"the {_NUMBERS[role]} argument of {call}(d, a, b, c), {role},")
        if frag.use != use:
            raise OperandError(f"{call}(d, a, b, c): {role} must be a fragment of {use!r}; got {frag.kind} ({GUIDE})")
    for what, values in (
        ("shape", {role: each.shape for role, each in arguments.items()}),
        ("target", {role: each.target for role, each in arguments.items()}),
    ):
        if len(set(values.values())) > 1:
            said = listing(
                [f"{role} {values[role] if what == 'target' else 'x'.join(map(str, values[role]))}" for role in "dabc"],
                "and",
            )
            why = {
                "shape": "All four must have the same m, n and k (m x n x k)",
                "target": "Layouts differ between architectures, so fragments can be swapped only through memory",
            }[what]
            raise OperandError(f"{call}: the fragments have different {what}s: {said}. {why} ({GUIDE})")
    return arguments


@cache
def _variants() -> tuple[tuple[Mapping[str, str], Instruction], ...]:
    """Every wmma.mma that C++ has, with the types of A and B written out; C++ has only the default rounding."""
    whole = {"atype": "f16", "btype": "f16"}
    return tuple((whole | words, instruction) for words, instruction in MMA.variants if "rounding" not in words)


def _instruction(call: str, fragments: Fragments, options: Mapping[str, str]) -> Instruction:
    words = {f"{role}type": frag.element_type.format for role, frag in fragments.items()} | {
        "shape": str(fragments["d"].shape),
        **options,
    }
    words |= {f"{role}layout": frag.layout.word for role, frag in fragments.items() if frag.layout}
    for candidate, instruction in _variants():
        if candidate == words:
            return instruction
    variants = [own for own, _ in _variants() if all(own.get(slot) == words[slot] for slot in ("shape", "atype"))]
    a, b, c, d = (fragments[role].element_type for role in "abcd")
    if options and any(all(own.get(slot) == words[slot] for slot in ("btype", "ctype", "dtype")) for own in variants):
        raise IllegalInstruction(f"{call} of {a} has no satf: only integer sums can be clamped. Leave it out ({GUIDE})")
    accepted = dict.fromkeys(
        f"{BY_FORMAT[own['btype']]} b, {BY_FORMAT[own['ctype']]} c and {BY_FORMAT[own['dtype']]} d" for own in variants
    )
    raise IllegalInstruction(
        f"{call} has no form with a of {a}, b of {b}, c of {c} and d of {d}. With a of {a} it takes "
        f"{listing(accepted)} ({GUIDE})"
    )


def float_to_tf32(values: npt.ArrayLike | Elements) -> Any:
    """__float_to_tf32: float32 numbers rounded to tf32, to nearest with ties away from zero (cvt.rna.tf32.f32).

    NaN stays NaN; its pattern may differ from the hardware's, but no product depends on it.

    `values` is a number, an array of float32, or x of a fragment; the result of the last can be assigned back:
    ``frag.x = float_to_tf32(frag.x)``. Raises OperandError for anything but floats.

    >>> tcemu.wmma.float_to_tf32(np.float32(1 + 2**-11))  # a tie goes away from zero: 1 + 2^-10
    np.float32(1.0009766)
    """
    elements = values if isinstance(values, Elements) else None
    try:
        numbers = FLOAT.number(values, "a float") if isinstance(values, float | int) else values
        array = as_array(numbers, "not an array", FormatError)
        if array.dtype != np.float32:
            raise FormatError(f"dtype {array.dtype}")
        rounded = np.asarray(lookup("tf32").encode(array, rounding="rna")).view(np.float32)
    except (FormatError, TypeError, ValueError) as error:
        raise OperandError(f"float_to_tf32 takes float32 numbers: {error}") from None
    if elements is not None:
        return Elements(elements.kind, rounded, np.ones(rounded.shape, bool))
    return rounded if rounded.ndim else rounded[()]
