"""Which conversions of A and B a product can come from: a wrong one shows in the size of D's errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.formats import lookup
from tcemu.recipes.epilogue import Epilogue
from tcemu.recipes.inputs import CONVERSIONS, converted

Array = npt.NDArray[Any]
#: How much larger the errors of the right conversion may be than those of another, because of how sums are rounded.
_WORSE = 16.0
#: Errors relative to D that say nothing: those of f32 itself.
_NOTHING = 2.0**-24


def likely(a: Array, b: Array, d: Array, plus: Epilogue | None, inputs: Iterable[str]) -> set[str]:
    """The conversions that can have come first, of some elements: a and b (elements, k), d (elements).

    Errors are those against the exact sum of the converted factors. Factors rounded to tf32 differ from those of f32 by
    2^-12 or so, far more than the rounding of f32 sums. Where D's own type or C hides that, all are likely.

    >>> from tcemu.recipes.likely import likely
    >>> A, B = np.random.default_rng(0).standard_normal((2, 64, 32)).astype(np.float32)
    >>> sorted(likely(A, B, (A * B).sum(axis=1), None, ["", "rn", "bf16", "bf16x3", "bf16x6"]))
    ['', 'bf16x6']
    """
    scale = np.nanmedian(np.abs(d.astype(float)))
    with np.errstate(all="ignore"):
        errors = {each: float(np.nanmedian(np.abs(_exact(a, b, plus, each) - d.astype(float)))) for each in inputs}
        least = max(min(errors.values()), _NOTHING * scale)
    return {each for each, error in errors.items() if not error > _WORSE * least}


def _exact(a: Array, b: Array, plus: Epilogue | None, inputs: str) -> Array:
    """alpha A B + beta C of converted factors, nearly exact."""
    conversion = CONVERSIONS[inputs]
    if conversion is None:
        total = (a.astype(float) * b).sum(axis=1)
    else:
        form = lookup(conversion.form)
        left, right = ([form.decode(part) for part in converted(each, conversion)] for each in (a, b))
        total = sum(((left[i] * right[j]).sum(axis=1) for i, j in conversion.pairs), np.zeros(len(a)))
    return total if plus is None else plus.real(total)
