"""Microscaling: matrices in 8, 6 or 4 bits with a scale for each block of k, for block-scaled mma.

    a, scale_a = microscaling.quantise(A, "mxfp8_e4m3")                      # A (16, 32): a (16, 32), scale_a (16, 1)
    b, scale_b = microscaling.quantise(B, "mxfp8_e4m3", axis=-2)             # B (32, 8):  b (32, 8),  scale_b (1, 8)
    x, y = (microscaling.scale_registers(s, opcode, role) for s, role in ((scale_a, "a"), (scale_b, "b")))
    d = tcemu.run(opcode, fragments["a"].pack(a), fragments["b"].pack(b), c, x, (0, 0), y, (0, 0), target="sm_120a")

MXFP8, MXFP6 and MXFP4 follow the OCP Microscaling Formats specification 1.0, 6.3: blocks of 32; the scale is the power
of two whose exponent is floor(log2(largest magnitude)) - emax of the element format, clamped to 2^-127 to 2^127; the
elements are the quotients, rounded to nearest even. A quotient above the largest element becomes the largest; this
happens because the scale holds only the power of two of the largest magnitude. With rounding="rp", as in cuBLAS,
Transformer Engine and torchao's RCEIL, the scale is largest magnitude / largest element, rounded up to a power of two
(cvt.rp.satfinite.ue8m0x2.f32), so that no element saturates; ROUNDINGS has all of them.
In memory, libraries keep the scales in blocks of 128 by 4: tcemu.layouts.to_blocked and from_blocked.

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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import (
    FormatError,
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
from tcemu.instructions.mma_block_scale import byte_and_thread, role_of_scales

Array = npt.NDArray[Any]

__all__ = ["KINDS", "ROUNDINGS", "Kind", "Rounding", "dequantise", "quantise", "scale_registers", "tensor_scale"]


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


@dataclass(frozen=True)
class Rounding:
    """How the largest magnitude of a block becomes a scale in ue8m0; `power` gives the exponent of that scale.

    >>> for name, rounding in tcemu.microscaling.ROUNDINGS.items():
    ...     power = rounding.power(np.array([7.0]), tcemu.microscaling.KINDS["mxfp4"].elements)
    ...     print(name, power, rounding.about)
    floor [0] floor(log2(magnitude)) - emax: the OCP's specification
    rp [1] magnitude / largest element, rounded up: cvt.rp, cuBLAS, Transformer Engine, torchao's RCEIL
    ceil [1] ceil(log2(magnitude)) - emax: torchao's CEIL
    even [1] floor(log2(magnitude rounded to the element's mantissa, ties up)) - emax: torchao's EVEN
    """

    name: str
    about: str
    power: Callable[[Array, Format], Array]


def _floor(largest: Array, elements: Format) -> Array:
    return np.frexp(largest)[1].astype(np.int64) - 1 - elements.emax


def _up(largest: Array, elements: Format) -> Array:
    (part, power), (most, of_most) = np.frexp(largest), np.frexp(elements.largest)
    return np.asarray(power.astype(np.int64) - int(of_most) + (part > most))


def _ceil(largest: Array, elements: Format) -> Array:
    return _floor(largest, elements) + (np.frexp(largest)[0] > 0.5)


def _even(largest: Array, elements: Format) -> Array:
    return _floor(largest, elements) + (np.frexp(largest)[0] >= 1 - 2.0 ** -(elements.mantissa + 2))


_ROUNDINGS = (
    Rounding("floor", "floor(log2(magnitude)) - emax: the OCP's specification", _floor),
    Rounding("rp", "magnitude / largest element, rounded up: cvt.rp, cuBLAS, Transformer Engine, torchao's RCEIL", _up),
    Rounding("ceil", "ceil(log2(magnitude)) - emax: torchao's CEIL", _ceil),
    Rounding("even", "floor(log2(magnitude rounded to the element's mantissa, ties up)) - emax: torchao's EVEN", _even),
)
ROUNDINGS: dict[str, Rounding] = Named("rounding of scales", {each.name: each for each in _ROUNDINGS})
#: Other names of these, in lower case.
_ALSO = {"ocp": "floor", "up": "rp", "rceil": "rp", "nvidia": "rp", "cublas": "rp"}


def quantise(
    matrix: npt.ArrayLike,
    kind: str | Kind,
    axis: int = -1,
    *,
    tensor_scale: float = 1.0,
    block: int | None = None,
    rounding: str | None = None,
) -> tuple[Array, Array]:
    """Elements (of the matrix's shape) and scales (`axis` is shorter by the block) of real numbers, in their dtypes.

    `kind` is "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4" or "nvfp4". `axis` is k: the last axis of
    A, the last but one of B. `block` overrides the number of elements that share a scale (64 for the B of a sparse
    mxf8f6f4 instruction). Everything is first divided by `tensor_scale`; pass the same to `dequantise`. Inputs up to
    float32 are rounded once.

    `rounding` is how a scale in ue8m0 is rounded, a name of ROUNDINGS: "floor" as in the OCP's specification, which is
    the default, or "rp" (up) as in NVIDIA's libraries. NVFP4 has no choice.

    Raises FormatError for an unknown kind or rounding, and for input that is not real numbers; OperandError for a wrong
    shape.

    >>> row = np.array([[0.1, -1.0, 3.0, 100.0] * 8])
    >>> elements, scales = tcemu.microscaling.quantise(row, "mxfp4")
    >>> elements.shape, scales.shape, scales[0, 0]  # one scale for 32 elements
    ((1, 32), (1, 1), 16)
    >>> tcemu.microscaling.dequantise(elements, scales, "mxfp4")[0, :4]
    array([ 0., -0.,  0., 96.])
    >>> elements, scales = tcemu.microscaling.quantise(row, "mxfp4", rounding="rp")  # 2^5: no element saturates
    >>> tcemu.microscaling.dequantise(elements, scales, "mxfp4")[0, :4]
    array([ 0., -0.,  0., 96.])
    """
    form = _kind(kind)
    rounded = _rounding(rounding, form)
    values, covered = _blocks(_real(matrix), axis, form.block if block is None else block, form), form.elements
    share = values / _positive(tensor_scale)
    finite = np.isfinite(share)
    largest = np.abs(np.where(finite, share, 0)).max(axis=-1, initial=0)
    scales = _sixth(largest, form) if rounded is None else _power_of_two(largest, form, rounded)
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
        numbers_scaled = numbers * np.repeat(factors, shared, axis=-1) * _positive(tensor_scale)
    return np.ascontiguousarray(np.moveaxis(numbers_scaled, -1, axis))


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
        raise OperandError(f"the tensor scale must fit a float32, but the largest magnitude / (6 * 448) is {share:g}")
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
    parsed = parse(instruction)
    name = f"scale_{role}"
    role = role_of_scales(parsed, role)
    byte, thread = byte_and_thread(parsed, name, (byte_id, thread_id))
    codes = lookup(parsed.words["stype"]).patterns(scales, f"{name} of {parsed}")
    fragment, count = parsed.fragments[name], parsed.facts.scales
    rows, columns = (parsed.shape.m, count) if role == "a" else (count, parsed.shape.n)
    if codes.shape[-2:] != (rows, columns):
        raise OperandError(f"{parsed}: {name} takes scales of shape (..., {rows}, {columns}); got {codes.shape}")
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


def _rounding(name: str | None, form: Kind) -> Rounding | None:
    """The rounding of a format's scales; None for those that are not powers of two."""
    if form.scales.zero:
        if name is not None:
            raise FormatError(
                f"the scales of {form.name} are {form.scales.name}, rounded to nearest even; only scales in ue8m0 can "
                "be rounded in other ways"
            )
        return None
    if name is None or (isinstance(name, str) and name in ROUNDINGS):
        return ROUNDINGS[name or "floor"]
    also = _ALSO.get(name.lower()) if isinstance(name, str) else None
    near = f" Did you mean {also!r}?" if also else did_you_mean(str(name).lower(), ROUNDINGS)
    raise FormatError(f"no rounding of scales is called {briefly(name)}.{near} They are {listing(ROUNDINGS, 'and')}.")


def _power_of_two(largest: Array, form: Kind, rounding: Rounding) -> Array:
    """The ue8m0 patterns of the powers of two that a rounding gives; the smallest pattern for 0."""
    power = np.where(largest > 0, rounding.power(largest, form.elements), form.scales.emin)
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
