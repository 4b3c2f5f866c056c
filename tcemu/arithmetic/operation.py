"""A model with the formats and qualifiers of one instruction, and formats as the kernels take them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic.ieee import CANONICAL_NAN
from tcemu.arithmetic.model import BitDot, FusedSums, Model
from tcemu.formats import Format, lookup

Array = npt.NDArray[Any]

#: Rounding words to the kernels' numbers.
MODES = {"rn": 0, "rz": 1, "rm": 2, "rp": 3}
_NAN_KINDS = {"none": 0, "ieee": 1, "all ones": 2}


@dataclass(frozen=True)
class Operation:
    """A model with everything it needs to compute: formats of a, b, c and d, products for an output, qualifiers.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> operation = mma.operation(tcemu.instructions.target_named("sm_90a"))
    >>> operation.depth, operation.formats["a"].name, operation.packed
    (16, 'f16', False)
    """

    model: Model
    a: str
    b: str
    c: str
    d: str
    depth: int
    #: Qualifiers of the instruction that change arithmetic, as (name, word): rounding, satfinite, op.
    qualifiers: tuple[tuple[str, str], ...] = ()
    #: Format of the scales, if there are any.
    scale: str = ""

    @cached_property
    def _hash(self) -> int:
        return hash((self.model, self.a, self.b, self.c, self.d, self.depth, self.qualifiers, self.scale))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def formats(self) -> dict[str, Format]:
        """The formats by role: a, b, c, d, and scale if there are scales."""
        return {role: lookup(getattr(self, role)) for role in ("a", "b", "c", "d", "scale") if getattr(self, role)}

    @property
    def keeps_addend(self) -> bool:
        """Whether C enters the sums as it is, with the exponents of another format than D's."""
        return isinstance(self.model, FusedSums) and not self.model.widen and self.c != self.d

    @property
    def packed(self) -> bool:
        """Whether A and B are taken as words of 32 elements along k, instead of one by one."""
        return isinstance(self.model, BitDot)


def numbers(form: Format) -> npt.NDArray[np.int64]:
    """A float format as the six numbers that the kernels take."""
    fields = (form.exponent, form.mantissa, form.bias, form.padding, form.infinities, _NAN_KINDS[form.nan])
    return np.array(fields, dtype=np.int64)


@cache
def conversion(source: str, target: str) -> Array:
    """Every pattern of a small format as the pattern of a wider one, by the codec: an exact table."""
    values = lookup(source).decode(np.arange(1 << lookup(source).container, dtype=np.int64))
    return lookup(target).encode(values)


def normalised(operation: Operation) -> tuple[bool, bool]:
    """Whether the subnormals of A, and of B, become normal numbers of the format to which they are converted first."""
    through = getattr(operation.model, "through", None)
    if through is None:
        return False, False
    return lookup(through).emin < operation.formats["a"].emin, lookup(through).emin < operation.formats["b"].emin


def narrow(patterns: Array) -> Array:
    """f32 patterns as f16 patterns, to nearest even; NaN is the canonical one."""
    values = patterns.view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        halves = values.astype(np.float16).view(np.uint16)
    return np.where(np.isnan(values), np.uint16(CANONICAL_NAN["f16"]), halves)
