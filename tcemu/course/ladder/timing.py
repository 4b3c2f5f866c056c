"""One line that compiles a rung's kernel for a real GPU and times it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tcemu import cuda
from tcemu.course.ladder import gpu, kept
from tcemu.course.ladder.table import GIVEN, Rung, Sizes
from tcemu.errors import TcemuError

#: Seconds that compiling and timing may take.
_LIMIT = 300


@dataclass(frozen=True)
class Timed:
    """What a GPU said about a kernel, or why none could be asked.

    >>> from tcemu.course.ladder.timing import Timed
    >>> print(Timed("your kernel", "there is no NVIDIA driver on this machine."))
    your kernel: there is no NVIDIA driver on this machine.
    """

    what: str
    says: str
    tflops: float = 0.0

    def __str__(self) -> str:
        return f"{self.what}: {self.says}"

    def __repr__(self) -> str:
        return str(self)


def timed(rung: Rung, text: str, what: str, sizes: Sizes) -> Timed:
    """Compile the CUDA C++ and time it on this machine's GPU, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            image = _compiled(text, Path(folder))
        except (TcemuError, subprocess.SubprocessError, OSError) as error:
            return Timed(what, f"it does not compile here: {error}")
        words = [sys.executable, gpu.__file__, str(image), *map(str, sizes), *(["persistent"] * rung.persistent)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=_LIMIT, check=False)  # noqa: S603
            answer = json.loads(done.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired:
            return Timed(what, f"it did not end within {_LIMIT} seconds: a wait never ends.")
        except (IndexError, ValueError):
            last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            return Timed(what, f"the process that used the GPU crashed: {last}")
    if "refused" in answer:
        return Timed(what, f"{answer['refused']}. {_elsewhere(rung)}")
    m, n, k = sizes
    if not answer["right"]:
        return Timed(what, f"D is wrong on {answer['card']}: the sums in float64 differ by {answer['error']:.3g}.")
    rate = f"{answer['tflops']:.1f} TFLOP/s for {m} x {n} x {k} ({answer['milliseconds']:.3f} ms)"
    return Timed(what, f"{rate} on {answer['card']}, {answer['clock'] or 'clock unknown'}.", answer["tflops"])


def _compiled(text: str, folder: Path) -> Path:
    """A cubin by nvcc, or else PTX by NVRTC, which the driver compiles."""
    source, nvcc = folder / "kernel.cu", shutil.which("nvcc")
    source.write_text(text, encoding="utf-8")
    if nvcc:
        out = folder / "kernel.cubin"
        words = [nvcc, "-arch=sm_90a", "-O3", "-cubin", f"-I{GIVEN}", "-o", str(out), str(source)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=_LIMIT, check=False)  # noqa: S603
        if done.returncode:
            raise OSError(done.stderr.strip())
        return out
    out = folder / "kernel.ptx"
    out.write_text(cuda.compile(source, "sm_90a", include=GIVEN).ptx, encoding="utf-8")
    return out


def _elsewhere(rung: Rung) -> str:
    """What to do on a machine with a GPU."""
    own = kept.folder()
    file = own / kept.file_of(rung, "cu") if own and kept.text(rung, "cu") else GIVEN / f"{rung.name}.cu"
    return (
        f"On a machine with an H100, the same line times the kernel. `nvcc -arch=sm_90a -O3 -cubin -I{GIVEN} {file}` "
        "compiles it without a GPU; `ladder.board()` shows what was recorded."
    )
