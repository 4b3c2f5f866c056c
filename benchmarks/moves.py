"""The cost of loading and storing fragments, beside numpy: python benchmarks/moves.py [warps].

Each instruction runs the given number of warps (default 100,000) in one call of tcemu.run, and is compared
with numpy's gather (or scatter) of the same bytes. The two take turns, and the best of some rounds counts.
No ratio should be above 3.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[1]))
import tcemu
from benchmarks.turns import best
from tcemu.layouts import Fragment

Array = npt.NDArray[Any]
ROUNDS, TARGET = 5, "sm_90a"
#: Bytes of shared memory.
SIZE = 1 << 16
MOVES = {
    "ldmatrix x4": "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
    "ldmatrix x4 .trans": "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
    "ldmatrix x1": "ldmatrix.sync.aligned.m8n8.x1.shared.b16",
    "stmatrix x4": "stmatrix.sync.aligned.m8n8.x4.shared.b16",
    "wmma.load a f16": "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16",
    "wmma.load b f16": "wmma.load.b.sync.aligned.row.m16n16k16.shared.f16",
    "wmma.load c f32": "wmma.load.c.sync.aligned.row.m16n16k16.shared.f32",
    "wmma.store d f32": "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32",
}


def rows_of_lanes(rng: np.random.Generator, fragment: Fragment, warps: int) -> tuple[Array, Array]:
    """An address for each lane, and the places of the bytes; the rows of a warp do not overlap."""
    rows = int(np.prod(fragment.shape[:-1]))
    at = rng.integers(0, SIZE // 1024, (warps, 1)) * 1024 + rng.permutation(32) * 16
    return at.astype(np.uint32), at[:, :rows, None] + np.arange(16)


def tiles(rng: np.random.Generator, fragment: Fragment, warps: int) -> tuple[Array, Array]:
    """An address for each warp, and the places of the bytes of its tile."""
    rows, columns = fragment.shape
    width = columns * fragment.container.width // 8
    at = rng.integers(0, SIZE // 8192, warps) * 1024
    return at.astype(np.uint32), at[:, None, None] + np.arange(rows)[:, None] * width + np.arange(width)


def load(memory: Array, places: Array) -> Array:
    """numpy's gather."""
    loaded: Array = memory[places]
    return loaded


def store(memory: Array, places: Array, data: Array) -> None:
    """numpy's scatter."""
    memory[places] = data


def move(opcode: str, warps: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """The instruction, and a gather or scatter of the same bytes."""
    rng, found = np.random.default_rng(0), tcemu.parse(opcode, TARGET)
    (fragment,) = found.fragments.values()
    shared = rng.integers(0, 256, SIZE, np.uint8)
    addressed = rows_of_lanes if found.family in ("ldmatrix", "stmatrix") else tiles
    at, places = addressed(rng, fragment, warps)
    run = partial(tcemu.run, opcode, at, shared=shared, target=TARGET)
    if found.family not in ("stmatrix", "wmma.store"):
        return run, partial(load, shared, places)
    bits = rng.integers(0, 1 << 32, (warps, fragment.lanes, fragment.registers), np.uint32)
    registers = bits.view(fragment.container.register_dtype)
    return partial(run, registers), partial(store, shared, places, rng.integers(0, 256, places.shape, np.uint8))


def main(warps: int) -> None:
    """Print the table."""
    print(f"{warps} warps in one call, the best of {ROUNDS} rounds")
    print(f"{'':24}{'ms':>9}{'numpy':>9}{'ratio':>8}   at most 3")
    for name, opcode in MOVES.items():
        own, plain = best(list(move(opcode, warps)), ROUNDS)
        print(f"{name:24}{own * 1e3:9.1f}{plain * 1e3:9.1f}{own / plain:8.2f}", flush=True)


if __name__ == "__main__":
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument("warps", type=int, nargs="?", default=100_000, help="warps of each; 100,000 if not given")
    main(options.parse_args().warps)
