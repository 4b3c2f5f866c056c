"""How much longer classes of numbers take than normal numbers: python benchmarks/classes.py [instructions].

For each instruction, a batch of some thousand warps by tcemu.run, and a square product by tcemu.matmul, whose A, B and
C are of one class; all take turns, the best of some rounds count. The goal is at most 3 times as long as numbers with a
normal distribution. The instructions are those of batches.py, or those named, on sm_90a or after an "@" another target.

    bits        every pattern as likely
    subnormal   only subnormal numbers and zeros
    some sub.   half of them
    NaN         one element in ten
    one NaN     one element in 10,000
    infinity    one element in twenty
    wide        exponents over most of the format's range
    zeros       half of them
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import tcemu
from benchmarks.batches import CASES, OTHERS, Array, Change, as_they_are, batch, operands
from benchmarks.turns import best
from tcemu.errors import TcemuError, listing
from tcemu.formats import Format

WARPS, SIZE, ROUNDS = 4000, 512, 5
#: Families whose instructions take A, B and C from registers.
FAMILIES = ("mma", "wmma.mma", "mma.sp")
#: Powers of two by which "wide" numbers are multiplied, at most; and how many the ends of a format's range stay away.
POWERS, MARGIN = 100, 2


def some(share: float, other: Change) -> Change:
    """Another class for so many of the elements."""

    def change(form: Format, rng: np.random.Generator, patterns: Array) -> Array:
        return np.where(rng.random(patterns.shape) < share, other(form, rng, patterns), patterns)

    return change


def bits(form: Format, rng: np.random.Generator, patterns: Array) -> Array:
    return rng.integers(0, 1 << form.bits, patterns.shape, np.uint64).astype(patterns.dtype) << form.padding


def subnormal(form: Format, rng: np.random.Generator, patterns: Array) -> Array:
    return rng.integers(0, 1 << form.mantissa, patterns.shape).astype(patterns.dtype) << form.padding


def nan(form: Format, rng: np.random.Generator, patterns: Array) -> Array:
    return np.full_like(patterns, form.encode(np.nan)) if form.has_nan else patterns


def infinity(form: Format, rng: np.random.Generator, patterns: Array) -> Array:
    return np.full_like(patterns, form.encode(np.inf)) if form.infinity_bits is not None else patterns


def zero(form: Format, rng: np.random.Generator, patterns: Array) -> Array:
    return np.zeros_like(patterns)


def wide(form: Format, rng: np.random.Generator, patterns: Array) -> Array:
    most = min((1 << form.exponent - 1) - MARGIN, POWERS)
    powers = rng.uniform(-most, most, patterns.shape)
    return form.encode(rng.standard_normal(patterns.shape) * 2.0**powers)


CLASSES: dict[str, Change] = {
    "bits": bits,
    "subnormal": subnormal,
    "some sub.": some(0.5, subnormal),
    "NaN": some(0.1, nan),
    "one NaN": some(1e-4, nan),
    "infinity": some(0.05, infinity),
    "wide": wide,
    "zeros": some(0.5, zero),
}


def product(instruction: str, target: str, change: Change) -> Callable[[], object]:
    """One call of tcemu.matmul."""
    a, b, c = (np.ascontiguousarray(each[:SIZE, :SIZE]) for each in operands(instruction, target, (), change))
    return lambda: tcemu.matmul(a, b, c, instruction=instruction, target=target)


def beside(work: Callable[[Change], Callable[[], object]]) -> str:
    """How many times as long each class takes as normal numbers."""
    first, *others = best([work(change) for change in (as_they_are, *CLASSES.values())], ROUNDS)
    return "".join(f"{each / first:10.2f}" for each in others)


def main(forms: dict[str, tuple[str, str]]) -> None:
    """Print both tables; instructions with metadata or scales multiply no whole matrices."""
    width = max(map(len, forms))
    for title, work in (("a batch", batch_of), ("a product", product_of)):
        print(f"{title:{width}}" + "".join(f"{name:>10}" for name in CLASSES) + "   goal 3")
        for name, own in forms.items():
            try:
                print(f"{name:{width}}{beside(partial(work, own))}", flush=True)
            except TcemuError as error:
                print(f"{name:{width}}  {str(error).splitlines()[0]}")
        print()


def batch_of(own: tuple[str, str], change: Change) -> Callable[[], object]:
    return batch(*own, WARPS, change)


def product_of(own: tuple[str, str], change: Change) -> Callable[[], object]:
    return product(*own, change)


def of_batches() -> dict[str, tuple[str, str]]:
    """The instructions on floats of batches.py."""
    forms = {name: own[:2] for name, own in (CASES | OTHERS).items()}
    return {name: own for name, own in forms.items() if tcemu.parse(*own).types["a"].kind == "float"}


def form_of(text: str) -> tuple[str, tuple[str, str]]:
    """An instruction and its target, for the command line."""
    opcode, _, target = text.partition("@")
    own = opcode, target or "sm_90a"
    try:
        found = tcemu.parse(*own)
    except TcemuError as error:
        raise ArgumentTypeError(str(error).splitlines()[0]) from None
    if found.family not in FAMILIES or found.types["a"].kind != "float":
        raise ArgumentTypeError(f"{opcode}: this measures only {listing(FAMILIES, 'and')} on floats")
    return text, own


if __name__ == "__main__":
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument(
        "instructions", nargs="*", type=form_of, help="instead of those of batches.py: opcodes, as mma.sync...@sm_80"
    )
    main(dict(options.parse_args().instructions) or of_batches())
