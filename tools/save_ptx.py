"""Store the PTX that tests run where no compiler is installed: tests/golden/front-ends.json.xz.

    python tools/save_ptx.py

Needs the extra `cuda`, and Triton for its kernels (pip install triton); without Triton, those that are stored stay.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "cuda")]

from stored import FILE  # noqa: E402
from triton_kernels import LAUNCHES, TARGETS  # noqa: E402
from twin_cases import TWINS, key  # noqa: E402

from tcemu import ptx  # noqa: E402
from tcemu.cuda import compiler, triton  # noqa: E402
from tcemu.gemm import twins  # noqa: E402


def without_paths(text: str) -> str:
    """The same PTX with paths below the repository or the environment."""
    return text.replace(f"{Path(sys.prefix)}/", "").replace(f"{ROOT}/", "")


def of_twins() -> dict[str, str]:
    """PTX by the hash of what is compiled."""
    found: dict[str, str] = {}

    def compile_only(text: str, define: Mapping[str, str | int]) -> ptx.Module:
        module = twins.compiled(text, define)
        found[key(text, define)] = without_paths(module.text)
        return module

    for each in TWINS.values():
        with twins.emulated(compile_only, sanitizer="off"):
            each.theirs(*each.given)
    return found


def of_triton() -> dict[str, Any]:
    """PTX of Triton's kernels by name and target, and what a launch needs."""
    found = {}
    for name, (function, _, make, constants) in LAUNCHES.items():
        for target in TARGETS[name]:
            made = triton.compiled(function, *make(), target=target, **constants)
            text = without_paths(made.module.text)
            found[f"{name}-{target}"] = {
                "ptx": text, "warps": made.num_warps, "shared": made.shared, "scratch": made.scratch,
            }  # fmt: skip
    return found


def main() -> None:
    """Write the file."""
    before = json.loads(lzma.decompress(FILE.read_bytes())) if FILE.exists() else {}
    major, minor = compiler.version()
    kept = {"twins": {"compiler": f"NVRTC {major}.{minor}", "ptx": of_twins()}, "triton": before.get("triton")}
    if find_spec("triton"):
        kept["triton"] = {"compiler": f"triton {metadata.version('triton')}", "kernels": of_triton()}
    FILE.write_bytes(lzma.compress(json.dumps(kept, indent=0).encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
