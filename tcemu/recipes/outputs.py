"""How a result becomes D's type: rounding, and what becomes of numbers that the type cannot hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.formats import Format, lookup
from tcemu.recipes.inputs import nearest

Array = npt.NDArray[Any]


def rounded(values: Array, kind: str, output: str, rounding: str = "", overflow: str = "") -> Array:
    """Numbers of type `kind` in the type `output`; `rounding` and `overflow` are a recipe's.

    By default as cvt does it. PTX ISA, "Data Movement and Conversion Instructions: cvt": to an integer, .rni and a
    result clamped to the type's range, NaN as 0, and .sat from a wider integer (cvt.pack.sat); to fp8 only .satfinite
    exists; to f16 and bf16 .rn, and infinity.

    >>> from tcemu.recipes.outputs import rounded
    >>> rounded(np.float32([2.5, 300, -np.inf]), "f32", "s8").tolist()
    [2, 127, -128]
    >>> [float(x) for x in rounded(np.float32([300, 500]), "f32", "e4m3")]
    [288.0, 448.0]
    """
    if kind == output:
        return values
    form = lookup(output)
    if form.kind != "float":
        return _integers(values, form, rounding, overflow)
    if rounding or overflow or form.bits <= 8:
        satfinite = overflow == "saturate" or (not overflow and form.bits <= 8)
        return form.matrix(form.encode(values, rounding or "rn", satfinite=satfinite))
    return nearest(values, form)


def _integers(values: Array, form: Format, rounding: str, overflow: str) -> Array:
    if values.dtype.kind == "f":
        values = _whole(np.nan_to_num(values.astype(np.float64), nan=0.0), rounding)
        wide = lookup("s32") if overflow == "wrap" else form  # C's cast to char: by way of s32
        values = np.clip(values, wide.lowest, wide.largest).astype(np.int64)
    elif overflow != "wrap":
        values = np.clip(values.astype(np.int64), int(form.lowest), int(form.largest))
    return values.astype(form.dtype)


def _whole(values: Array, rounding: str) -> Array:
    if rounding == "rz":
        return np.trunc(values)
    if rounding == "rna":
        return np.copysign(np.floor(np.abs(values) + 0.5), values)
    return np.rint(values)
