"""Compile faulty.cu with NVRTC and store its PTX beside it: python tests/sanitizer/cuda/save.py."""

from __future__ import annotations

import re
from pathlib import Path

import tcemu.cuda

SOURCE = Path(__file__).with_name("faulty.cu")


def text_of() -> str:
    """The PTX of the kernels, which names the file without a folder."""
    made = tcemu.cuda.compile(SOURCE, arch="sm_90a").ptx
    return re.sub(r'(\.file\s+\d+) "[^"]*/faulty\.cu"', r'\1 "faulty.cu"', made)


if __name__ == "__main__":
    SOURCE.with_suffix(".ptx").write_text(text_of(), encoding="utf-8")
