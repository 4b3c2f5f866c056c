"""Finds the recipe that gave these bits: likely ones first, at few elements first, and the whole product last."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import ArithmeticUnknown, OperandError
from tcemu.recipes.candidates import Way, trials
from tcemu.recipes.elements import Elements, Tried, missed, narrow, telling
from tcemu.recipes.epilogue import Epilogue, epilogue
from tcemu.recipes.evidence import Evidence
from tcemu.recipes.finishes import finishes
from tcemu.recipes.inputs import CONVERSIONS
from tcemu.recipes.operands import matrix, values
from tcemu.recipes.product import product
from tcemu.recipes.recipe import Recipe
from tcemu.recipes.verdict import Match, Verdict

Array = npt.NDArray[Any]
#: Elements at which every recipe is tried, and those at which the ones that pass are: by whether D is narrow.
_FEW, _MORE = {False: 4, True: 24}, 96
#: Recipes that are tried at more elements at once.
_CHUNK = 64
#: Recipes that are compared with all of D: at least, at most, and products for which it is done beyond the least.
_WHOLE, _MOST, _CHEAP = 4, 64, 1 << 27
#: Instructions for each of a few elements with which the search goes on, once it has found something.
_SURVEY = 400_000
#: Rows of D that are compared before all of it.
_ROWS = 16
#: Elements, of those that a recipe does not give, at which others are tried from then on.
_LEARNT = {"few": 4, "more": 64}
#: Elements of D, in whole rows, at which recipes that do not give all of D are compared with it.
_NEAREST = 1 << 14


@explained
def whose_bits(
    a: object,
    b: object,
    d: object,
    c: object = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    bias: object = None,
    scale_a: object = None,
    scale_b: object = None,
    scale_c: float = 1.0,
    scale_d: float = 1.0,
    effort: int = 1_500_000,
) -> Verdict:
    """The recipes that give exactly the bits of D, which some library computed from A and B; else the nearest.

    D = scale_d relu(alpha scale_a A scale_b B + beta scale_c C + bias), as in `multiply`, which says what shapes C,
    bias and the scales have; whether there is a relu shows in D. A (M, K), B (K, N) and D (M, N) are arrays of numpy,
    ml_dtypes, JAX or CuPy, or torch tensors: f16, bf16, f32, f64, fp8 or integers of 8 or 4 bits, and D also s32. After
    `effort` instructions for each of a few elements, the rarer recipes are not tried any more, which matters for a long
    K, and the verdict says so. Raises OperandError for other types and shapes, ArithmeticUnknown for types that no
    instruction multiplies.

    >>> from tcemu.recipes import Recipe, multiply, whose_bits
    >>> A = np.linspace(-1, 2, 8 * 64, dtype=np.float32).reshape(8, 64)
    >>> D = multiply(Recipe("fma.rn.f32", splits=3, size=24), A, A.T)  # the product of some library
    >>> str(whose_bits(A, A.T, D).recipes[0])
    'fma.rn.f32 sm_90a splits=3 size=24'
    """
    (a, of_a), (b, of_b), (d, of_d) = matrix(a, "A"), matrix(b, "B"), matrix(d, "D")
    if a.shape[1] != b.shape[0] or d.shape != (a.shape[0], b.shape[1]) or not d.size or not a.shape[1]:
        turned = " Pass D.T." if d.shape == (b.shape[1], a.shape[0]) and a.shape[1] == b.shape[0] else ""
        raise OperandError(
            f"A must be (M, K), B (K, N) and D (M, N); got shapes {a.shape}, {b.shape} and {d.shape}.{turned}"
        )
    more = {"C": c, "bias": bias, "scale_a": scale_a, "scale_b": scale_b}
    operands = {name: None if each is None else values(each, name) for name, each in more.items()}
    numbers = {"alpha": alpha, "beta": beta, "scale_c": scale_c, "scale_d": scale_d}
    plus = epilogue((len(d), d.shape[1]), a.shape[1], operands.pop("C"), **numbers, **operands)  # type: ignore[arg-type]
    return _Search(a, b, d, plus, (of_a, of_b, of_d)).verdict(effort)


class _Search:
    def __init__(self, a: Array, b: Array, d: Array, plus: Epilogue | None, types: tuple[str, str, str]) -> None:
        self._a, self._b, self._d, self._plus, self._types = a, b, d, plus, types
        few = _FEW[narrow(types[2])]
        rows, columns = telling(a, b, d, plus, types[2], few + _MORE)
        self._at = {"few": (rows[:few], columns[:few]), "more": (rows, columns)}
        self._by = {name: Elements.of(a, b, d, plus, *at) for name, at in self._at.items()}
        self._steps = 0
        #: How many recipes may still be compared with all of D.
        self._left = min(_MOST, max(_WHOLE, _CHEAP // (d.size * a.shape[1])))

    def verdict(self, effort: int) -> Verdict:
        """The recipes that give all of D, and how much that says; or the nearest."""
        nearest: list[Tried] = []
        exact: list[Recipe] = []
        others: list[Recipe] = []
        evidence = Evidence(self._a, self._b, self._d, self._plus, self._types)
        complete, until = True, 0
        inputs = self._by["more"].inputs() if self._types[0] == "f32" else CONVERSIONS
        for trial in trials(*self._types, self._a.shape[1], inputs, self._ways(), self._block()):
            if not trial.recipes:
                continue
            steps = self._steps + self._by["few"].steps
            if steps >= (min(effort, until + _SURVEY) if exact else effort):
                complete = False
                break
            until = until if exact else steps
            tried = self._by["few"].tried(list(trial.recipes), trial.reductions)
            evidence.tried([each.recipe for each in tried])
            if not exact:
                best = sorted(tried, key=lambda each: -each.share)[:2]
                nearest += self._by["more"].tried([each.recipe for each in best])
            agreed, more = self._exact(_agreeing(tried))
            exact, others = exact + agreed, others + more
        if exact:
            matches = [Match(recipe, 1.0, None, None, self._d.size) for recipe in exact]
            return self._verdict(matches, others, complete, evidence)
        if not nearest:
            raise ArithmeticUnknown(
                f"no known instruction multiplies {self._types[0]} by {self._types[1]} and gives {self._types[2]}"
            )
        nearest.sort(key=lambda each: -each.share)
        return self._verdict([self._near(each.recipe) for each in nearest[:2]], [], complete, evidence)

    def _ways(self) -> list[Way]:
        return finishes(self._a, self._b, self._d, self._plus, (self._types[0], self._types[2]))

    def _block(self) -> int:
        return self._plus.blocks.size if self._plus is not None and self._plus.blocks is not None else 0

    def _exact(self, recipes: list[Recipe]) -> tuple[list[Recipe], list[Recipe]]:
        """Recipes that give all of D, and others that agree wherever they were tried."""
        same: list[Recipe] = []
        others: list[Recipe] = []
        while recipes:
            tried, recipes = self._by["more"].tried(recipes[:_CHUNK]), recipes[_CHUNK:]
            left = _agreeing(tried)
            agreed = bool(left)
            while left and self._left:
                recipe, *left = left
                differ = self._differences(recipe)
                if len(differ):
                    self._learn(differ)
                    left = _agreeing(self._by["more"].tried(left))
                else:
                    same.append(recipe)
                    self._left -= 1
            others += left
            if recipes and not (agreed and (same or others)):
                self._look_at(tried)
                recipes = _agreeing(self._by["few"].tried(recipes))
        return same, others

    def _learn(self, differ: Array) -> None:
        """From now on, try recipes at some elements, rows and columns (count, 2), that one of them did not give."""
        for name, count in _LEARNT.items():
            rows, columns = differ[:: max(1, len(differ) // count)][:count].T
            self._add(name, rows, columns)

    def _look_at(self, tried: list[Tried]) -> None:
        """From now on, try every recipe at elements that few of these gave: most would pass the first few again."""
        places = missed(tried, _LEARNT["few"])
        rows, columns = self._at["more"]
        self._add("few", rows[places], columns[places])

    def _add(self, name: str, rows: Array, columns: Array) -> None:
        if name == "few":
            self._steps += self._by[name].steps
        at = self._at[name]
        self._at[name] = np.concatenate([at[0], rows]), np.concatenate([at[1], columns])
        self._by[name] = Elements.of(self._a, self._b, self._d, self._plus, *self._at[name])

    def _differences(self, recipe: Recipe) -> Array:
        """Rows and columns (count, 2) of elements that a recipe does not give; none if it gives all of D."""
        every = np.arange(len(self._d), dtype=np.int64)
        for rows in (every[:: max(1, len(every) // _ROWS)], every):
            differ = np.argwhere(_bits(self._product(recipe, rows)) != _bits(self._d[rows]))
            if len(differ):
                break
        return np.stack([rows[differ[:, 0]], differ[:, 1]], axis=1)

    def _near(self, recipe: Recipe) -> Match:
        """The match in the first rows, which are quick to compute; in all rows if nothing differs there."""
        match = self._match(recipe, max(1, _NEAREST // self._d.shape[1]))
        return match if match.first is not None else self._match(recipe, len(self._d))

    def _match(self, recipe: Recipe, rows: int) -> Match:
        """The recipe with the share of the elements in the first rows that it gives, and the first that it does not."""
        result = self._product(recipe, np.arange(min(rows, len(self._d)), dtype=np.int64))
        same = _bits(result) == _bits(self._d[:rows])
        first = None if same.all() else tuple(int(i) for i in np.argwhere(~same)[0])
        return Match(recipe, float(same.mean()), first, None if first is None else result[first], same.size)

    def _product(self, recipe: Recipe, rows: Array) -> Array:
        """These rows of the recipe's result."""
        return product(recipe, self._a[rows], self._b, self._plus and self._plus.of_rows(rows))

    def _verdict(self, matches: list[Match], others: list[Recipe], complete: bool, evidence: Evidence) -> Verdict:
        matches = sorted(matches, key=lambda each: -each.share)
        measured = evidence.of([match.recipe for match in matches if match.share == 1], others)
        return Verdict(matches, others, self._a, self._b, self._d, self._plus, complete, measured)


def _agreeing(tried: list[Tried]) -> list[Recipe]:
    return [each.recipe for each in tried if each.share == 1]


def _bits(d: Array) -> Array:
    bits: Array = d.view(f"u{d.dtype.itemsize}")
    return bits
