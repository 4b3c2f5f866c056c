"""From .cu files to an executable that asks tcemu for its launches, and to the PTX of its kernels."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tcemu.errors import CompilationError, TcemuError
from tcemu.progress import Progress

#: The runtime that programs are linked with.
RUNTIME = Path(__file__).parent / "runtime.cpp"
#: Of a program that is linked without CUDA's own libraries, what the linker says about a name that it does not find.
_MISSING = "undefined reference to `"


@dataclass(frozen=True)
class Built:
    """An executable and the PTX of each file."""

    executable: Path
    ptx: tuple[Path, ...]


def build(files: Sequence[Path], arch: str, options: Sequence[str], folder: Path) -> Built:
    """Compile and link. Raises CompilationError with nvcc's words, and TcemuError on Windows or without nvcc."""
    if sys.platform == "win32":
        raise TcemuError(
            "a program with main() runs on Linux only, where tcemu's CUDA runtime takes the place of NVIDIA's. Its "
            "kernels run here, too: compile the file with tcemu.cuda.compile, or %%cuda in a notebook, and launch them "
            "from Python on numpy arrays"
        )
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise TcemuError(
            "a program with main() needs nvcc, of NVIDIA's CUDA toolkit, which compiles its host code; there is none "
            "on the path. Its kernels run without nvcc: compile the file with tcemu.cuda.compile, or %%cuda in a "
            "notebook, and launch them from Python on numpy arrays"
        )
    virtual = arch.replace("sm", "compute")
    common = ["-std=c++17", "-lineinfo", "-gencode", f"arch={virtual},code={virtual}", *options]
    library = folder / "libcudart.so"
    made = f"-std=c++17 -O1 -shared -Xcompiler -fPIC -cudart none -x c++ {RUNTIME} -o {library}"
    executable = folder / "program"
    kept = folder / "kept"
    kept.mkdir()
    link = ["-cudart", "none", f"-L{folder}", "-lcudart", "-Xlinker", f"-rpath={folder}"]
    with Progress(f"nvcc compiles {', '.join(each.name for each in files)}") as bar:
        bar.show()
        _do([nvcc, *made.split()], "the runtime")
        _do([nvcc, *common, "--keep", "--keep-dir", str(kept), *map(str, files), *link, "-o", str(executable)], "nvcc")
    return Built(executable, tuple(sorted(kept.glob("*.ptx"))))


def _do(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the user's own compiler
    if done.returncode == 0:
        return
    said = done.stderr + done.stdout
    missing = {line.split(_MISSING, 1)[1].split("'", 1)[0] for line in said.splitlines() if _MISSING in line}
    if missing:
        names = ", ".join(sorted(missing)[:6])
        raise CompilationError(
            f"tcemu's CUDA runtime does not have what this program calls: {names}. Launch its kernels from Python "
            "instead: tcemu.cuda.compile(Path(FILE))[KERNEL](grid, block, *arrays)"
        )
    raise CompilationError(f"{what}:\n{said.strip()}")
