"""What may come after the sums: the ways in which scales and C join them, and the last rounding that D shows."""

from __future__ import annotations

from dataclasses import fields
from itertools import product
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from tcemu.formats import lookup
from tcemu.recipes.candidates import Way
from tcemu.recipes.elements import narrow, real
from tcemu.recipes.epilogue import Epilogue
from tcemu.recipes.outputs import rounded
from tcemu.recipes.recipe import Fused, Promotion, Recipe, Scaled

Array = npt.NDArray[Any]
#: Elements of D, in whole rows, that show how results were rounded.
_SHOWN = 1 << 15
#: How many fewer of them a rounding may give than the best one.
_FEWER = 0.1


def finishes(a: Array, b: Array, d: Array, plus: Epilogue | None, kinds: tuple[str, str]) -> list[Way]:
    """Every combination of ways that this product can show; `kinds` are those of A and D.

    >>> from tcemu.recipes.finishes import finishes
    >>> A = np.full((1, 32), 100, np.int8)
    >>> finishes(A, A.T, np.full((1, 1), 0, np.int8), None, ("s8", "s8"))  # 320,000, of which 8 bits are left
    [{'overflow': 'wrap'}]
    """
    choices: dict[str, tuple[str, ...]] = {}
    exact = lookup(kinds[0]).kind != "float"
    if plus is not None and plus.c is not None:
        choices["fused"] = get_args(Fused)
    if plus is not None and (plus.scales is not None or plus.blocks is not None) and _both_scale(plus):
        choices["scales"] = get_args(Scaled)
    if plus is not None and plus.blocks is not None and not _powers(plus.blocks.a, plus.blocks.b):
        choices["promotion"] = get_args(Promotion)
    if plus is not None and plus.joins and kinds[1] in ("f16", "bf16"):
        choices["product"] = ("", kinds[1])
    if exact and plus is not None and plus.joins and _whole(plus):
        choices["epilogue"] = ("", "s32")
    last = _last(a, b, d, plus, kinds, exact=exact)
    ways = [dict(zip(choices, each, strict=True)) for each in product(*choices.values())]
    defaults = {field.name: field.default for field in fields(Recipe)}
    return [
        {name: word for name, word in (way | end).items() if word != defaults[name]} for end in last for way in ways
    ]


def _both_scale(plus: Epilogue) -> bool:
    pair = plus.scales or (plus.blocks and (plus.blocks.a, plus.blocks.b)) or ()
    return all((each != 1).any() for each in pair) and not _powers(*pair)


def _powers(*scales: Array) -> bool:
    """Whether all scales are powers of two, whose products are exact in any order."""
    return all((np.frexp(each)[0] == 0.5).all() for each in scales)


def _whole(plus: Epilogue) -> bool:
    """Whether alpha and C may join the sums as integers."""
    fits = all(each == int(each) for each in (plus.alpha, plus.beta) if np.isfinite(each))
    return fits and plus.scales is None and (plus.c is None or plus.c.dtype.kind in "iu")


def _last(
    a: Array, b: Array, d: Array, plus: Epilogue | None, kinds: tuple[str, str], *, exact: bool
) -> list[dict[str, str]]:
    """Activations, roundings and overflows that give most of D, were its sums exact; of equal ones, what cvt does."""
    form = lookup(kinds[1])
    rows = np.unique(np.linspace(0, len(d) - 1, max(1, min(len(d), _SHOWN // d.shape[1]))).astype(np.int64))
    sums, shown = real(a[rows], b, plus and plus.of_rows(rows)), d[rows]
    with np.errstate(all="ignore"):
        plain = shown.astype(float)
        relu = bool((plain >= 0).all() and (plain == 0).any() and (sums[plain == 0] < 0).any())
        sums = np.where(sums > 0, sums, 0) if relu else sums
        beyond = bool(((sums > form.largest) | (sums < form.lowest)).any())
    end = {"activation": "relu"} if relu else {}
    if not narrow(kinds[1]) or (exact and form.name == "s32" and (plus is None or not plus.joins)):
        return [end]
    whole = form.kind != "float"
    roundings = ("", "rz", "rna") if whole else ("", "rz")
    overflows = ("", *(("wrap",) if whole else ("special",) if form.bits <= 8 else ("saturate",))) if beyond else ("",)
    shares: dict[bytes, tuple[float, dict[str, str]]] = {}
    for rounding, overflow in product(roundings, overflows):
        result = np.ascontiguousarray(rounded(sums, "f64", form.name, rounding, overflow))
        share = float((result.view(f"u{result.dtype.itemsize}") == shown.view(f"u{shown.dtype.itemsize}")).mean())
        shares.setdefault(result.tobytes(), (share, end | {"rounding": rounding, "overflow": overflow}))
    best = max(share for share, _ in shares.values())
    return [way for share, way in shares.values() if share >= best - _FEWER]
