"""Microscaling: matrices in 8, 6 or 4 bits with a scale for each block of k, for block-scaled mma.

    a, scale_a = microscaling.quantise(A, "mxfp8_e4m3")                      # A (16, 32): a (16, 32), scale_a (16, 1)
    b, scale_b = microscaling.quantise(B, "mxfp8_e4m3", axis=-2)             # B (32, 8):  b (32, 8),  scale_b (1, 8)
    x, y = (microscaling.scale_registers(s, opcode, role) for s, role in ((scale_a, "a"), (scale_b, "b")))
    d = tcemu.run(opcode, fragments["a"].pack(a), fragments["b"].pack(b), c, x, (0, 0), y, (0, 0), target="sm_120a")

MXFP8, MXFP6 and MXFP4 follow the OCP Microscaling Formats specification 1.0, 6.3: blocks of 32; the scale is the power
of two whose exponent is floor(log2(largest magnitude)) - emax of the element format, clamped to 2^-127 to 2^127; the
elements are the quotients, rounded to nearest even. A quotient above the largest element becomes the largest; this
happens because the scale holds only the power of two of the largest magnitude.

NVFP4 has e2m1 in blocks of 16. Its scale is largest magnitude / 6, rounded to nearest even in ue4m3; 6 is the largest
e2m1 and 448 the largest scale. These scales have a small range, so a tensor may have a scale of its own, by which
everything is divided first; `tensor_scale` computes the usual one, which maps the largest element of the tensor to
6 * 448.

What the specification leaves open is decided so that an invalid value never becomes a plausible number:
  - Zero and subnormal blocks: a block of zeros has the smallest scale, 2^-127 or 0; the scale of any other NVFP4 block
    is at least the smallest ue4m3, 2^-9. Elements too small for that become zeros, with their sign.
  - NaN and infinite elements do not count towards the largest magnitude. They stay what they are if the element format
    has them (e5m2 has both; in e4m3 both become NaN); otherwise (6 and 4 bits) the scale of their block is NaN.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import (
    FormatError,
    IllegalInstruction,
    Named,
    OperandError,
    briefly,
    did_you_mean,
    is_whole,
    listing,
    shown,
)
from tcemu.formats import Format, lookup
from tcemu.instructions import Instruction, parse
from tcemu.instructions.mma_block_scale import byte_and_thread

Array = npt.NDArray[Any]

__all__ = ["KINDS", "Kind", "dequantise", "quantise", "scale_registers", "tensor_scale"]


@dataclass(frozen=True)
class Kind:
    """A microscaling format: the formats of elements and scales, and how many elements share a scale.

    >>> mxfp4 = tcemu.microscaling.KINDS["mxfp4"]
    >>> mxfp4.elements, mxfp4.scales.name, mxfp4.block  # elements that share a scale
    (<e2m1: 1 sign, 2 exponent, 1 mantissa bits, bias 1, largest 6>, 'ue8m0', 32)
    """

    name: str
    element: str
    scale: str
    block: int

    @property
    def elements(self) -> Format:
        """The format of the elements."""
        return lookup(self.element)

    @property
    def scales(self) -> Format:
        """The format of the scales: ue8m0 (powers of two only) or ue4m3."""
        return lookup(self.scale)


_KINDS = (
    Kind("mxfp8_e4m3", "e4m3", "ue8m0", 32),
    Kind("mxfp8_e5m2", "e5m2", "ue8m0", 32),
    Kind("mxfp6_e3m2", "e3m2", "ue8m0", 32),
    Kind("mxfp6_e2m3", "e2m3", "ue8m0", 32),
    Kind("mxfp4", "e2m1", "ue8m0", 32),
    Kind("nvfp4", "e2m1", "ue4m3", 16),
)
KINDS: dict[str, Kind] = Named("microscaling format", {kind.name: kind for kind in _KINDS})


def quantise(
    matrix: npt.ArrayLike, kind: str | Kind, axis: int = -1, *, tensor_scale: float = 1.0, block: int | None = None
) -> tuple[Array, Array]:
    """Elements (of the matrix's shape) and scales (`axis` is shorter by the block) of real numbers, in their dtypes.

    `kind` is "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4" or "nvfp4". `axis` is k: the last axis of
    A, the last but one of B. `block` overrides the number of elements that share a scale (64 for the B of a sparse
    mxf8f6f4 instruction). Everything is first divided by `tensor_scale`; pass the same to `dequantise`. Inputs up to
    float32 are rounded once.

    Raises FormatError for an unknown kind and for input that is not real numbers, OperandError for a wrong shape.

    >>> row = np.array([[0.1, -1.0, 3.0, 100.0] * 8])
    >>> elements, scales = tcemu.microscaling.quantise(row, "mxfp4")
    >>> elements.shape, scales.shape, scales[0, 0]  # one scale for 32 elements
    ((1, 32), (1, 1), 16)
    >>> tcemu.microscaling.dequantise(elements, scales, "mxfp4")[0, :4]
    array([ 0., -0.,  0., 96.])
    """
    form = _kind(kind)
    values, covered = _blocks(_real(matrix), axis, form.block if block is None else block, form), form.elements
    share = values / _positive(tensor_scale)
    finite = np.isfinite(share)
    largest = np.abs(np.where(finite, share, 0)).max(axis=-1, initial=0)
    scales = (_power_of_two if not form.scales.zero else _sixth)(largest, form)
    patterns = covered.encode(_quotient(np.where(finite, share, 0), form.scales.decode(scales)), satfinite=True)
    infinite = np.isinf(share)
    if covered.has_nan:
        instead = covered.nan_bits if covered.infinity_bits is None else covered.infinity_bits
        sign = np.where(np.signbit(share) & (covered.infinity_bits is not None), covered.sign_bit, 0)
        special = np.where(infinite, (instead or 0) | sign, covered.nan_bits or 0)
        patterns = np.where(finite, patterns, special).astype(covered.storage)
    else:
        broken = ~finite.all(axis=-1)
        scales = np.where(broken, form.scales.nan_bits or 0, scales).astype(form.scales.storage)
        patterns = np.where(finite, patterns, 0).astype(covered.storage)
    flat = patterns.reshape(*patterns.shape[:-2], patterns.shape[-2] * patterns.shape[-1])
    return tuple(  # type: ignore[return-value]
        np.ascontiguousarray(np.moveaxis(each.matrix(array), -1, axis))
        for each, array in ((covered, flat), (form.scales, scales))
    )


def dequantise(
    elements: npt.ArrayLike, scales: npt.ArrayLike, kind: str | Kind, axis: int = -1, *, tensor_scale: float = 1.0
) -> Array:
    """The exact values, float64, of elements and scales in their dtypes or as patterns.

    A NaN scale makes its block NaN. Raises OperandError if the shapes do not match.

    >>> elements, scales = tcemu.microscaling.quantise(np.full((1, 16), 0.75), "nvfp4")
    >>> tcemu.microscaling.dequantise(elements, scales, "nvfp4")[0, :2]
    array([0.75, 0.75])
    """
    form = _kind(kind)
    patterns = form.elements.patterns(elements, f"elements of {form.name}")
    codes = form.scales.patterns(scales, f"scales of {form.name}")
    try:
        numbers = np.moveaxis(form.elements.decode(patterns), axis, -1)
        factors = np.moveaxis(form.scales.decode(codes), axis, -1)
    except (TypeError, ValueError, OverflowError):
        raise _no_axis(axis, patterns.shape) from None
    shared = numbers.shape[-1] // factors.shape[-1] if factors.shape[-1] else 0
    if numbers.shape[:-1] != factors.shape[:-1] or shared * factors.shape[-1] != numbers.shape[-1]:
        raise OperandError(
            f"{form.name}: scales must have the shape of the elements except along axis {axis}, whose length must be a "
            f"multiple of theirs; got elements {patterns.shape} and scales {codes.shape}"
        )
    with np.errstate(invalid="ignore"):
        found = numbers * np.repeat(factors, shared, axis=-1) * _positive(tensor_scale)
    return np.ascontiguousarray(np.moveaxis(found, -1, axis))


def tensor_scale(matrix: npt.ArrayLike) -> float:
    """The usual second scale of NVFP4: largest finite magnitude / (6 * 448), as a float32; 1 for a tensor of zeros.

    Raises FormatError for input that is not real numbers, OperandError if the scale does not fit a float32.

    >>> tcemu.microscaling.tensor_scale(np.array([[1.0, -2688.0]]))  # 2688 is 6 * 448
    1.0
    """
    values = _real(matrix)
    largest = np.abs(np.where(np.isfinite(values), values, 0)).max(initial=0)
    share = largest / (lookup("e2m1").largest * lookup("ue4m3").largest)
    if share > np.finfo(np.float32).max:
        raise OperandError(
            f"the tensor scale must fit a float32, but the largest magnitude / (6 * 448) is {share:g}"
        )
    scale = np.float32(share)
    return float(scale) if scale > 0 else 1.0


def scale_registers(
    scales: npt.ArrayLike, instruction: str | Instruction, role: str, byte_id: int = 0, thread_id: int = 0
) -> Array:
    """Scale registers (..., 32) of a block-scaled instruction, for scales (..., 16, s) of "a" or (..., s, 8) of "b".

    s is 1, 2 or 4 for .scale_vec::1X, 2X or 4X. The scales, in their dtype or as patterns, are put where `byte_id` and
    `thread_id` select them; every other byte is 0, so that registers with different ids can be combined with `|`.
    Raises IllegalInstruction for an instruction without scales, OperandError for another role, id or shape.

    >>> opcode = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
    >>> _, scales = tcemu.microscaling.quantise(np.full((16, 64), 12.0), "mxfp4")
    >>> registers = tcemu.microscaling.scale_registers(scales, opcode, "a")
    >>> scales.shape, registers.shape, hex(registers[0])  # two scales of 2^1 for row 0: 0x80 is 127 + 1
    ((16, 2), (32,), '0x8080')
    """
    found = parse(instruction)
    name = f"scale_{role}"
    if "scale_a" not in found.fragments:
        raise IllegalInstruction(f"{found} has no scales; mma with .block_scale has them (PTX ISA 9.7.14.3)")
    if not isinstance(role, str) or role not in ("a", "b"):
        raise OperandError(f"{found} has scales of 'a' and of 'b'; got {shown(role)}")
    byte, thread = byte_and_thread(found, name, (byte_id, thread_id))
    codes = lookup(found.words["stype"]).patterns(scales, f"{name} of {found}")
    fragment, count = found.fragments[name], found.facts.scales
    rows, columns = (found.shape.m, count) if role == "a" else (count, found.shape.n)
    if codes.shape[-2:] != (rows, columns):
        raise OperandError(f"{found}: {name} takes scales of shape (..., {rows}, {columns}); got {codes.shape}")
    some = slice(byte, byte + count)
    held = np.zeros((int(np.prod(codes.shape[:-2])), *fragment.shape), np.uint8)
    held[:, thread, *((slice(None), some) if role == "a" else (some, slice(None)))] = codes.reshape(-1, rows, columns)
    return fragment.write(held.reshape(len(held), -1)).reshape(*codes.shape[:-2], fragment.lanes)


# ---------------------------------------------------------------------------------------------- what they share


def _kind(kind: str | Kind) -> Kind:
    if isinstance(kind, Kind):
        return kind
    if isinstance(kind, str) and kind in KINDS:
        return KINDS[kind]
    near = did_you_mean(kind.lower(), _of_as_many_bits(kind)) if isinstance(kind, str) else ""
    raise FormatError(f"no microscaling format is called {shown(kind)}.{near} The formats are {listing(KINDS, 'and')}.")


def _of_as_many_bits(name: str) -> list[str]:
    """The names with the number of bits that `name` has, if it has one: mxfp16 is not a misspelt mxfp4."""
    bits = re.search("[0-9]+", name)
    return [each for each in KINDS if not bits or re.search("[0-9]+", each)[0] == bits[0]]  # type: ignore[index]


def _real(matrix: npt.ArrayLike) -> Array:
    """Real numbers as float64. Raises FormatError for anything else."""
    double = lookup("f64")
    return double.decode(double.encode(matrix))


def _positive(scale: float) -> float:
    try:
        number = float(scale)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if not 0 < number < np.inf:
        raise OperandError(f"tensor_scale must be a positive number; got {briefly(scale)}")
    return number


def _no_axis(axis: object, shape: tuple[int, ...]) -> OperandError:
    return OperandError(f"an array of shape {shape} has no axis {briefly(axis)}")


def _blocks(values: Array, axis: int, block: int, form: Kind) -> Array:
    """Values with k last, divided into blocks: (..., blocks, block)."""
    try:
        last = np.moveaxis(values, axis, -1)
    except (TypeError, ValueError, OverflowError):
        raise _no_axis(axis, values.shape) from None
    if not is_whole(block) or not 1 <= block < 1 << 32:
        raise OperandError(f"block must be the number of elements that share a scale; got {briefly(block)}")
    if last.shape[-1] % block:
        raise OperandError(
            f"{form.name} has a scale for every {block} elements, but axis {axis} of shape {values.shape} is not a "
            f"multiple of {block}. Pad it with zeros."
        )
    return last.reshape(*last.shape[:-1], last.shape[-1] // block, block)


def _power_of_two(largest: Array, form: Kind) -> Array:
    """The ue8m0 patterns of exponents floor(log2(largest)) - emax; the smallest pattern for 0."""
    power = np.frexp(largest)[1].astype(np.int64) - 1 - form.elements.emax
    power = np.where(largest > 0, power, form.scales.emin)
    return (np.clip(power, form.scales.emin, form.scales.emax) + form.scales.bias).astype(form.scales.storage)


def _sixth(largest: Array, form: Kind) -> Array:
    """The ue4m3 patterns of largest / 6 (6 is the largest element); 0 only for 0."""
    wanted = largest / form.elements.largest
    return form.scales.encode(
        np.where(largest > 0, np.maximum(wanted, form.scales.smallest_subnormal), 0), satfinite=True
    )


def _quotient(values: Array, scales: Array) -> Array:
    """Values (..., blocks, block) divided by their scales; a block with scale 0 holds only zeros."""
    return values / np.where(scales > 0, scales, 1)[..., None]
