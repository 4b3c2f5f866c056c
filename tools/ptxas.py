"""NVIDIA's assembler, ptxas, and the one question that the tools ask it: which lines it takes.

ptxas comes with CUDA, or alone: pip install nvidia-cuda-nvcc (then it is nvidia/cu13/bin/ptxas in that environment).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

#: PTX versions, oldest first.
VERSIONS = tuple(f"{major}.{minor}" for major, end in ((6, 6), (7, 9), (8, 9), (9, 6)) for minor in range(end))
#: ptxas no longer generates code for these targets, but still checks modules for them.
_CHECKED_AS = {"sm_70": "sm_75", "sm_72": "sm_75"}
_UNKNOWN = re.compile(r"does not support \.target|Unsupported \.version|is not defined for option")
#: What operands name: memory of every state space, and registers of every type.
_DECLARATIONS = (
    ".const .align 128 .b8 far[1024];",
    ".shared .align 128 .b8 smem[1024];",
    ".visible .entry k(.param .align 128 .b8 parameter[256]) {",
    ".reg .b16 %h<20>; .reg .b32 %r<200>; .reg .f32 %f<200>; .reg .f64 %d<40>, %fd<40>; .reg .b64 %q<4>, %rd<40>;",
    ".reg .pred %p<4>, p<8>; .reg .b8 b<16>; .reg .b16 h<16>; .reg .b32 r<16>; .reg .b64 a, d<16>;",
    ".reg .f32 f<16>; .reg .f64 g<16>; .shared .align 128 .b8 near[1024]; .local .align 128 .b8 own[1024];",
)
_SINCE_8_3 = ".reg .b128 q<16>;"
#: The last line is always wrong, so that ptxas only reads and never assembles.
_END = "nonsense.b32 %r0;"


class Ptxas:
    """One ptxas program."""

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def release(self) -> str:
        """The release, such as 13.5.37."""
        said = subprocess.run([self.path, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603
        release: str = re.findall(r"V(\d+\.\d+\.\d+)", said)[0]
        return release

    @cached_property
    def versions(self) -> tuple[str, ...]:
        """The PTX versions that it knows, oldest first."""
        known = next(number for number in range(len(VERSIONS), 0, -1) if self.knows(VERSIONS[number - 1], "sm_90"))
        return VERSIONS[:known]

    def knows(self, version: str, target: str) -> bool:
        """Whether it reads modules with that .version and .target."""
        return self._wrong([], version, target) is not None

    def taken(self, lines: Sequence[str], version: str, target: str) -> set[str]:
        """The lines, opcodes with operands, that it takes in a module with that .version and .target."""
        left = list(lines)
        while left:
            wrong = self._wrong(left, version, target)
            if wrong is None:
                return set()
            finished = len(left) in wrong  # a syntax error hides the lines after it
            left = [line for number, line in enumerate(left) if number not in wrong]
            if finished:
                break
        return set(left)

    def _wrong(self, lines: Sequence[str], version: str, target: str) -> set[int] | None:
        """The numbers of the lines that it reports, the last line among them; None if it does not know the module."""
        wide = [_SINCE_8_3] if _numbers(version) >= (8, 3) else []
        head = [f".version {version}", f".target {target}", ".address_size 64", *_DECLARATIONS, *wide]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "asked.ptx")
            path.write_text("\n".join([*head, *lines, _END, "ret;", "}"]), encoding="ascii")
            command = [self.path, f"-arch={_CHECKED_AS.get(target, target)}", "-o", f"{folder}/out", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        said = done.stdout + done.stderr
        if _UNKNOWN.search(said):
            return None
        wrong = {int(number) - len(head) - 1 for number in re.findall(r"line (\d+); (?:error|fatal)", said)}
        if not wrong or min(wrong) < 0:
            raise SystemExit(f"{self.path} with .version {version} and .target {target}:\n{said[:2000]}")
        return wrong


def find() -> str | None:
    """The ptxas of this environment, or the one on the path."""
    here = sorted(Path(sys.prefix).glob("lib/python*/site-packages/nvidia/*/bin/ptxas"))
    return str(here[-1]) if here else shutil.which("ptxas")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))
