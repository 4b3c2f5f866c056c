"""From .cu files to an executable that asks tcemu for its launches, and to the PTX of its kernels."""

from __future__ import annotations

import re
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
#: Functions and headers of CUDA and its libraries.
_OF_CUDA = re.compile(r"(?:cu|nv|nccl|npp|curand|thrust|cub/)[a-z_]*")
#: What the compiler says about a header that it does not find, and what helps.
_NO_HEADER = re.compile(r"fatal error: (\S+): No such file")
#: What programs that need it are compiled with, and others do not notice.
_EXTENDED = ("--extended-lambda", "--expt-relaxed-constexpr")
_SEPARATE = re.compile("separate compilation mode|__cudaRegisterLinkedBinary")
_BY_ITSELF = (
    "tcemu compiles the device's code of each file by itself, without -rdc=true: a __device__ function or variable "
    "belongs into the file of the kernels that use it, or into a header, and kernels cannot launch kernels"
)
_SAMPLES = "It belongs to CUDA's samples: get their repository, and say where it is, -I cuda-samples/Common."
_FOLDER = "-I FOLDER says where headers are."
_LIBRARY = (
    "Of CUDA's libraries, only the runtime and those of headers alone (Thrust, CUB, libcu++) run here. Put the kernels "
    "into a file without this header, and launch them from there."
)


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
    common = ["-std=c++17", "-lineinfo", "-gencode", f"arch={virtual},code={virtual}", *_EXTENDED, *options]
    library = folder / "libcudart.so"
    made = f"-std=c++17 -O1 -shared -Xcompiler -fPIC -cudart none -x c++ {RUNTIME} -o {library}"
    executable, kept = folder / "bin" / files[0].stem, folder / "kept"
    executable.parent.mkdir()
    kept.mkdir()
    # -pie: what belongs to the host has high addresses; low ones are the device's
    link = ["-Xcompiler", "-fPIE,-pie", "-cudart", "none", f"-L{folder}", "-lcudart", "-Xlinker", f"-rpath={folder}"]
    with Progress(f"nvcc compiles {', '.join(each.name for each in files)}") as bar:
        bar.show()
        _do([nvcc, *made.split()], "the runtime")
        _do([nvcc, *common, "--keep", "--keep-dir", str(kept), *map(str, files), *link, "-o", str(executable)], "nvcc")
    return Built(executable, tuple(sorted(kept.glob("*.ptx"))))


def _do(command: list[str], what: str) -> None:
    done = subprocess.run(  # noqa: S603 - the user's own compiler
        command, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    if done.returncode == 0:
        return
    said = done.stderr + done.stdout
    if _SEPARATE.search(said):
        errors = "\n".join(line for line in said.splitlines() if "): error: " in line)
        raise CompilationError("\n".join(filter(None, [errors, _BY_ITSELF])))
    missing = {line.split(_MISSING, 1)[1].split("'", 1)[0] for line in said.splitlines() if _MISSING in line}
    theirs = sorted(each for each in missing if _OF_CUDA.match(each))
    if theirs:
        raise CompilationError(
            f"tcemu's CUDA runtime does not have what this program calls: {', '.join(theirs[:6])}. Launch its kernels "
            "from Python instead: tcemu.cuda.compile(Path(FILE))[KERNEL](grid, block, *arrays)"
        )
    if missing:
        raise CompilationError(
            f"no file of the program defines {', '.join(sorted(missing)[:6])}. Name the files that do, each with -X: "
            "tcemu run main.cu -X other.cu"
        )
    header = _NO_HEADER.search(said)
    sample = header and header[1].startswith("helper_")
    advice = f"\n{_SAMPLES if sample else _LIBRARY if _OF_CUDA.match(header[1]) else _FOLDER}" if header else ""
    raise CompilationError(f"{what}:\n{said.strip()}{advice}")
