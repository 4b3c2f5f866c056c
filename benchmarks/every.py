"""How fast a batch of each instruction is beside tcemu.matmul, the slowest first: python benchmarks/every.py [targets].

All dense mma.sync and wmma.mma of floats, on each target on which they compute in another way or have other fragments.
A batch has about 20 million multiply-adds, registers in and registers out; it takes turns with a square product by the
same instruction, and the best of some rounds counts. The goal is half of matmul's rate.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable, Hashable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[1]))
import tcemu
from benchmarks.turns import best
from tcemu.errors import ArithmeticUnknown, TargetError
from tcemu.formats import Format
from tcemu.instructions import FAMILIES, Instruction, Target, target_named
from tcemu.instructions.catalogue import catalogue

Array = npt.NDArray[Any]
TARGETS = ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
PRODUCTS, ROUNDS, LEAST = 20_000_000, 5, 64
#: Sides of the square product: the largest that takes no more seconds than this.
SIZES, SECONDS = (768, 256, 96), 0.25


def works(targets: list[Target]) -> Iterator[tuple[Instruction, Target]]:
    """Instructions and targets, each of which differs from those before in what is computed, or where it is."""
    met: set[Hashable] = set()
    for family in FAMILIES:
        if family.name not in ("mma", "wmma.mma"):
            continue
        for instruction in catalogue(family=family.name):
            for target in targets:
                key = manner(instruction, target)
                if key is not None and key not in met:
                    met.add(key)
                    yield instruction.on(target), target


def manner(instruction: Instruction, target: Target) -> Hashable | None:
    """The types, arithmetic and layouts; None if there is nothing to compare.

    That is where the target lacks the instruction, or it does not take floats, or its D cannot be the C of the next
    step, so that it multiplies no matrices.
    """
    types = instruction.types
    if not instruction.gate.admits(target) or any(types[role].kind != "float" for role in "abcd"):
        return None
    if types["c"] != types["d"]:
        return None
    found = instruction.on(target)
    if not found.knows_fragments:
        return None
    try:
        operation = found.operation(target)
    except ArithmeticUnknown:
        return None
    layouts = tuple(str(found.fragments[role].layout) for role in "abcd")
    return found.shape, operation.model, operation.a, operation.b, operation.c, operation.d, layouts


def normal(rng: np.random.Generator, form: Format, shape: tuple[int, ...]) -> Array:
    """Normal numbers of a format."""
    return form.matrix(form.encode(rng.standard_normal(shape)).astype(form.storage))


def batch(rng: np.random.Generator, found: Instruction, target: Target) -> tuple[int, Callable[[], object]]:
    """A batch's multiply-adds, and a call that computes it."""
    of_warp = prod(found.fragments["d"].shape) * found.shape.k
    warps = max(LEAST, PRODUCTS // of_warp)
    shapes = {role: (warps, *found.fragments[role].shape) for role in "abc"}
    given = [found.fragments[role].pack(normal(rng, found.types[role], shape)) for role, shape in shapes.items()]
    return warps * of_warp, lambda: tcemu.run(found, *given, target=str(target))


def product(rng: np.random.Generator, found: Instruction, target: Target) -> tuple[int, Callable[[], object]]:
    """The same of a square product."""
    for size in SIZES:
        a, b = (normal(rng, found.types[role], (size, size)) for role in "ab")

        def work(a: Array = a, b: Array = b) -> object:
            return tcemu.matmul(a, b, instruction=found, target=str(target))

        start = time.perf_counter()
        work()
        if time.perf_counter() - start < SECONDS:
            break
    return size**3, work


def architecture(name: str) -> Target:
    """The target called `name`, for the command line."""
    try:
        return target_named(name)
    except TargetError as error:
        raise ArgumentTypeError(str(error)) from None


def main() -> None:
    """Measure all, and print them."""
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    every = [target_named(name) for name in TARGETS]
    options.add_argument("targets", type=architecture, nargs="*", default=every, help="all architectures if not given")
    rng, rows = np.random.default_rng(0), []
    for found, target in works(options.parse_args().targets):
        (count, work), (whole, matrices) = batch(rng, found, target), product(rng, found, target)
        times = best([work, matrices], ROUNDS)
        rate, other = count / times[0], whole / times[1]
        rows.append((rate / other, f"{rate / 1e9:9.2f}{other / 1e9:9.2f}{rate / other:8.2f}   {target!s:8} {found}"))
        print(f"\r{len(rows)} measured", end="", file=sys.stderr, flush=True)
    print(f"\r{'GMAC/s':>9}{'matmul':>9}{'ratio':>8}   goal 0.5")
    for _, row in sorted(rows):
        print(row)


if __name__ == "__main__":
    main()
