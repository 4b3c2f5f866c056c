"""What a kernel does to the elements of A and B before it multiplies them: nothing, a rounding, or several parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.formats import Format, lookup

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Conversion:
    """Elements as `parts` numbers of another format: the element, rounded; what is left of it, rounded; and so on.

    `rounding` applies to the first part, `rest` to the others. `pairs` are the products, each of a part of A and a
    part of B, in the order in which each `step` of k (0: each tile) adds them.
    """

    form: str
    rounding: str = "rn"
    rest: str = "rn"
    parts: int = 1
    pairs: tuple[tuple[int, int], ...] = ((0, 0),)
    step: int = 0
    about: str = ""
    #: Whether each pair is a product of its own, and these products are added in f32.
    apart: bool = False


def _emulated(
    form: str, roundings: str, parts: int, pairs: str, about: str, step: int = 0, *, apart: bool = False
) -> Conversion:
    rounding, _, rest = roundings.partition(" ")
    order = tuple((int(pair[0]), int(pair[1])) for pair in pairs.split())
    return Conversion(form, rounding, rest, parts, order, step, about, apart)


#: The values of a recipe's `inputs`.
CONVERSIONS: dict[str, Conversion | None] = {
    "": None,
    "rz": Conversion("tf32", "rz", about="f32 cut off to tf32, as the tensor core does it"),
    "rna": Conversion("tf32", "rna", about="f32 rounded to tf32 by cvt.rna"),
    "rn": Conversion("tf32", "rn", about="f32 rounded to tf32 by cvt.rn"),
    "bf16": Conversion("bf16", about="f32 rounded to bf16"),
    "f16": Conversion("f16", about="converted to f16"),
    "f32": Conversion("f32", about="converted to f32"),
    "bf16x3": _emulated("bf16", "rn rn", 2, "10 01 00", "f32 as two bf16 parts, three products"),
    "bf16x6": _emulated("bf16", "rn rn", 3, "11 20 02 10 01 00", "f32 as three bf16 parts, six products"),
    "bf16x9": _emulated("bf16", "rn rn", 3, "22 21 12 11 20 02 10 01 00", "f32 as three bf16 parts, nine products"),
    "tf32x3": _emulated("tf32", "rna rz", 2, "10 01 00", "f32 as two tf32 parts, as compilers do it"),
    "tf32x3rna": _emulated("tf32", "rna rna", 2, "10 01 00", "f32 as two tf32 parts, both by cvt.rna"),
    "tf32x3rn": _emulated("tf32", "rn rn", 2, "10 01 00", "f32 as two tf32 parts, both by cvt.rn"),
    "tf32x3rz": _emulated("tf32", "rz rz", 2, "10 01 00", "f32 as two tf32 parts, both cut off by the tensor core"),
    "tf32x3ba": _emulated("tf32", "rna rna", 2, "01 10 00", "as tf32x3rna, with A's large part first"),
    "tf32x3big": _emulated("tf32", "rna rna", 2, "00 01 10", "as tf32x3rna, with both large parts first"),
    "tf32+3": _emulated("tf32", "rna rna", 2, "10 01 00", "as tf32x3rna, but three products added in f32", apart=True),
    "tf32+3ab": _emulated("tf32", "rna rna", 2, "00 01 10", "as tf32+3, the large parts' product first", apart=True),
    "tf32+3ba": _emulated("tf32", "rna rna", 2, "00 10 01", "as tf32+3ab, then that with A's small part", apart=True),
    "3xtf32": _emulated("tf32", "rz rna", 2, "10 01 00", "f32 as two tf32 parts, as CUTLASS does it", step=8),
}


def converted(matrix: Array, conversion: Conversion) -> list[Array]:
    """The patterns of a matrix's parts.

    >>> from tcemu.recipes.inputs import CONVERSIONS, converted
    >>> [hex(part[0, 0]) for part in converted(np.array([[1 + 2**-9]], np.float32), CONVERSIONS["bf16x3"])]
    ['0x3f80', '0x3b00']
    """
    form, left = lookup(conversion.form), matrix
    parts: list[Array] = []
    for _ in range(conversion.parts):
        parts.append(_encoded(left, form, conversion.rest if parts else conversion.rounding))
        if len(parts) < conversion.parts:
            with np.errstate(invalid="ignore"):  # infinity has no remainder
                left = left - form.decode(parts[-1]).astype(left.dtype)
    return parts


def _encoded(values: Array, form: Format, rounding: str) -> Array:
    return form.patterns(nearest(values, form), "matrix") if rounding == "rn" else form.encode(values, rounding)


def nearest(values: Array, form: Format) -> Array:
    """Numbers of any format in another, to nearest even, in its dtype.

    >>> from tcemu.recipes.inputs import nearest
    >>> nearest(np.ones(1, np.float32), tcemu.formats.lookup("bf16"))
    array([1], dtype=bfloat16)
    """
    if form.infinities and form.bits == 8 * form.dtype.itemsize and np.isfinite(values).all():
        with np.errstate(over="ignore"):  # numpy rounds the same, and sooner
            patterns: Array = values.astype(form.dtype)
        return patterns
    return form.matrix(form.encode(values, "rn"))
