"""Where NVRTC and CUDA's headers are: in the wheels of the extra `cuda`, or in a CUDA toolkit of the system.

The wheels put everything into the package `nvidia`: CUDA 13 into one folder (cu13/lib, cu13/include), CUDA 12 into one
for each component (cuda_nvrtc/lib, cuda_runtime/include). On Windows the libraries are in `bin`,
CUDA 13's in `bin/x86_64`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tcemu.errors import MissingPackage, NoProcesses
from tcemu.extras import install_extra, require_processes

#: Headers that NVRTC needs and lacks: C++'s standard library as far as kernels use it, and empty ones for the host's.
OWN = Path(__file__).parent / "include"
#: NVRTC itself, not the libraries beside it (libnvrtc-builtins.so.13.0, libnvrtc.alt.so.13): Linux, Windows.
_LIBRARY = re.compile(r"libnvrtc\.so\.\d+|nvrtc64_\d+_\d+\.dll")
#: Headers of the components: the runtime, the compiler, libcu++ and the targets.
_HEADERS = ("cuda_runtime.h", "crt/host_config.h", "cuda/std/cstdint", "nv/target")


@dataclass(frozen=True)
class Toolkit:
    """NVRTC's library, and the folders with headers."""

    library: Path
    include: tuple[Path, ...]


@cache
def toolkit() -> Toolkit:
    """What is installed. Raises MissingPackage if NVRTC is not, NoProcesses in a browser."""
    require_processes("NVRTC, which compiles CUDA C++ that is not a cell of the course as it was,")
    folders = list(_folders())
    library = next(filter(None, map(_library, folders)), None)
    if library is None:
        raise MissingPackage(
            f"CUDA C++ needs NVRTC, CUDA's compiler, which the extra `cuda` installs on Linux and Windows; "
            f"{install_extra('cuda')}. Stored PTX needs no compiler: tcemu.ptx.load"
        )
    headers = [next(filter(None, (_header(folder, name) for folder in folders)), None) for name in _HEADERS]
    return Toolkit(library, tuple(dict.fromkeys(filter(None, headers))))


def available() -> bool:
    """Whether CUDA C++ can be compiled here.

    >>> isinstance(tcemu.cuda.available(), bool)
    True
    """
    try:
        toolkit()
    except (MissingPackage, NoProcesses):
        return False
    return True


def _folders() -> Iterator[Path]:
    """Folders that may hold `lib` and `include`: the newest CUDA of the wheels first."""
    spec = find_spec("nvidia")
    for place in spec.submodule_search_locations or () if spec else ():
        yield from sorted(Path(place).glob("cu[0-9]*"), reverse=True)
        yield from sorted(Path(place).glob("cuda_*"))
    system = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")
    yield from (Path(place) for place in system if place)


def _library(folder: Path) -> Path | None:
    for part in ("lib", "lib64", "bin", "bin/x64", "bin/x86_64"):
        for file in sorted(folder.glob(f"{part}/*nvrtc*"), reverse=True):
            if _LIBRARY.fullmatch(file.name):
                return file
    return None


def _header(folder: Path, name: str) -> Path | None:
    places = (folder / "include", folder / "include" / "cccl")
    return next((place for place in places if (place / name).is_file()), None)
