"""How fast tcemu.matmul is beside what else a user might pick: python benchmarks/peers.py [size].

    MMA-Sim     the same product, exact too, by one call for the whole matrix: its fastest mode
    numpy       float32 `@`, which does not tell what a tensor core answers

numpy is measured first, then there is a pause, because the threads of its BLAS keep spinning for a while. The other two
take turns. The best of some rounds counts. The last column says whether tcemu and MMA-Sim gave the same bits. This
needs the extra `peers`, torch and a C++ compiler.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import tcemu
from benchmarks.matmul import CASES, operands
from benchmarks.sizes import multiple_of
from benchmarks.turns import best, rest

try:
    import torch
    from mmasim.nv_ptx import MMA
except ImportError as missing:
    INSTALL = 'python3 -m pip --python .venv install -c requirements.lock -e ".[peers]"'
    sys.exit(f"{missing}. This benchmark compares tcemu with MMA-Sim: install it with {INSTALL}, and torch.")

ROUNDS, SIZE = 3, 256
#: By MMA-Sim's names: the architecture, and the instruction. tcemu's are in matmul.CASES.
PEERS = {
    "f16 into f32": ("Hopper", "m16n8k16.f32.f16.f16.f32"),
    "f16 into f16": ("Hopper", "m16n8k16.f16.f16.f16.f16"),
    "bf16": ("Hopper", "m16n8k16.f32.bf16.bf16.f32"),
    "tf32": ("Hopper", "m16n8k8.f32.tf32.tf32.f32"),
    "f64": ("Hopper", "m8n8k4.f64.f64.f64.f64"),
    "f16, sm_80": ("Ampere", "m16n8k16.f32.f16.f16.f32"),
    "tf32, sm_80": ("Ampere", "m16n8k8.f32.tf32.tf32.f32"),
    "e4m3, sm_89": ("Ada Lovelace", "m16n8k32.f32.e4m3.e4m3.f32"),
    "e4m3, sm_120": ("RTX Blackwell", "m16n8k32.f32.e4m3.e4m3.f32"),
}
TORCH = {"e4m3": torch.float8_e4m3fn, "bf16": torch.bfloat16, "tf32": torch.float32}


def tensor(matrix: Any, name: str) -> Any:
    """A matrix as torch has it, with the same bits."""
    bits = torch.from_numpy(matrix.view(f"i{matrix.itemsize}").copy())
    return bits.view(TORCH.get(name) or getattr(torch, str(matrix.dtype)))


def calls(name: str, size: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The product by tcemu and by MMA-Sim: calls that return D."""
    instruction, target = CASES[name]
    a, b = operands(instruction, target, size)
    types = tcemu.parse(instruction, target).types
    peer = MMA(*PEERS[name])
    left, right = (tensor(matrix, types[role].name) for role, matrix in (("a", a), ("b", b)))
    c = torch.zeros((size, size), dtype=peer.d_type)
    return (
        lambda: tcemu.matmul(a, b, instruction=instruction, target=target),
        lambda: peer(left, right, c).numpy(),
    )


def different(one: Any, other: Any) -> str:
    """In how many results two matrices differ, bit by bit."""
    count = int((one.view(f"u{one.itemsize}") != other.view(f"u{other.itemsize}")).sum())
    return f"{count} of {one.size} differ" if count else "the same bits"


def main(size: int) -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, size, size)).astype(np.float32)
    print(f"{size} cubed\n{'millions a second':<16} {'tcemu':>9} {'MMA-Sim':>9} {'times':>7} {'of numpy':>9}")
    for name in PEERS:
        ours, theirs = calls(name, size)
        plain, _, *times = best([lambda: x @ y, rest, ours, theirs], ROUNDS)
        mine, other = (size**3 / each for each in times)
        print(
            f"{name:<16} {mine / 1e6:>9.0f} {other / 1e6:>9.1f} {mine / other:>7.0f} {f'1/{times[0] / plain:.1f}':>9}"
            f"   {different(ours(), theirs())}",
            flush=True,
        )


if __name__ == "__main__":
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument(
        "size", type=multiple_of(32), nargs="?", default=SIZE, help=f"a multiple of 32; {SIZE} if not given"
    )
    main(options.parse_args().size)
