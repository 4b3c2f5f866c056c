"""Compile faulty.cu with NVRTC for each target and store its PTX beside it: python tests/sanitizer/cuda/save.py."""

from __future__ import annotations

import re
from pathlib import Path

import tcemu.cuda

SOURCE = Path(__file__).with_name("faulty.cu")
#: The kernels of cluster launch control need a newer target than wgmma has.
TARGETS = ("sm_90a", "sm_100a")


def text_of(target: str) -> str:
    """The PTX of the kernels of a target, which names the file without a folder."""
    made = tcemu.cuda.compile(SOURCE, arch=target).ptx
    return re.sub(r'(\.file\s+\d+) "[^"]*/faulty\.cu"', r'\1 "faulty.cu"', made)


if __name__ == "__main__":
    for target in TARGETS:
        SOURCE.with_name(f"faulty.{target}.ptx").write_text(text_of(target), encoding="utf-8")
