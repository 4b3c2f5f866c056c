"""What can go wrong on a GPU or on the way to it, as sentences: what happened, and how to fix it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from tcemu.errors import listing
from tcemu.extras import install
from tcemu.instructions import TARGETS


def commands(clone: Path, prefix: Path, requirements: Iterable[str]) -> tuple[str, str, str, str]:
    """What installs the extra `gpu`, upgrades it, installs CUDA 12's packages instead, and their compiler's headers.

    `clone` is the folder around the package: if it is a clone, the extra is installed from there, in the versions that
    were tested together. A package that was installed in another way has the extra's `requirements` only.
    """
    twelve = ("cuda-bindings==12.*", "cuda-toolkit==12.*")
    if not (clone / "requirements.lock").is_file():
        wanted = [each.split(";")[0].strip() for each in requirements if re.search("""extra *== *['"]gpu""", each)]
        first, last = f"run: {install(*wanted)}", f"run: {install('nvidia-cuda-nvcc-cu12')}"
        return first, f"run: {install('--upgrade', *wanted)}", f"run: {install(*wanted, *twelve)}", last
    into = f"--python {'.venv' if prefix == clone / '.venv' else prefix}"
    pip = f"in the clone of tcemu run: python3 -m pip {into} install"
    older = " ".join(f'"{each}"' for each in twelve)
    return (
        f'{pip} -c requirements.lock -e ".[gpu]"', f'{pip} --upgrade -e ".[gpu]"', f'{pip} -e ".[gpu]" {older}',
        f"{pip} nvidia-cuda-nvcc-cu12",
    )  # fmt: skip


def _requirements() -> list[str]:
    try:
        return metadata.requires("tcemu") or []
    except metadata.PackageNotFoundError:  # a folder on the path
        return []


#: Install the extra `gpu`, upgrade it, install what compiles for Volta and for drivers of CUDA 12, and headers of that
#: compiler's own; those of CUDA 13 come with the extra.
INSTALL, UPGRADE, TWELVE, CRT_OF_TWELVE = commands(Path(__file__).parents[3], Path(sys.prefix), _requirements())
_DEBUG = "compute-sanitizer finds the line"
#: The driver's name for a misaligned address.
MISALIGNED = "CUDA_ERROR_MISALIGNED_ADDRESS"

#: By the driver's own name of the error, or ours; {} stands for a detail.
_SENTENCES = {
    "no driver": "NVIDIA's driver is not installed, or this process does not find it ({}). The extra `gpu` has only "
    "Python packages; the driver is part of the system, and a container needs --gpus all",
    "packages": f"NVIDIA's Python packages do not load ({{}}); {UPGRADE}",
    "packages and driver": "NVIDIA's Python packages fail with this driver ({}): update the driver, or "
    f"{UPGRADE}; for a driver of CUDA 12, {TWELVE}",
    "no nvrtc": f"NVRTC, the compiler of CUDA C++, does not load ({{}}); {INSTALL}; with cuda-bindings 12, {TWELVE}",
    "CUDA_ERROR_NO_DEVICE": "the driver is installed, but it finds no GPU: is CUDA_VISIBLE_DEVICES set, or did the "
    "container start without --gpus?",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "the driver's kernel module and its library have different versions; "
    "restart the machine",
    "CUDA_ERROR_INSUFFICIENT_DRIVER": "the driver is too old for the Python packages; update it",
    "CUDA_ERROR_OUT_OF_MEMORY": "the GPU does not have enough free memory for these operands; pass fewer warps at a "
    "time",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "the driver is too old for this PTX version; update the driver",
    "CUDA_ERROR_INVALID_PTX": "the driver does not accept this PTX",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the code was compiled for another GPU than this one",
    "CUDA_ERROR_NOT_FOUND": "the code has no kernel of this name",
    "CUDA_ERROR_INVALID_VALUE": "the launch does not fit this GPU: check grid, block, shared memory and the arguments",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "a block needs more registers or shared memory than the GPU has; use a "
    "smaller one",
    "CUDA_ERROR_ILLEGAL_ADDRESS": f"a thread read or wrote an address outside every array; {_DEBUG}",
    MISALIGNED: f"a thread used an address that is not aligned for its access; {_DEBUG}",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": "a thread used an address in a state space that its instruction does not "
    f"accept; {_DEBUG}",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "a thread reached an instruction that this GPU lacks, or whose "
    "operands it rejects",
    "CUDA_ERROR_INVALID_PC": "a thread jumped to an address that holds no code",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "a thread's stack is corrupt; the recursion may be too deep",
    "CUDA_ERROR_ASSERT": "an assert in the kernel failed; its message is on standard error",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "the driver stopped the kernel: with a screen attached, it does so after a "
    "few seconds",
    "CUDA_ERROR_LAUNCH_FAILED": f"the kernel stopped, as after a trap or a wrong address in shared memory; {_DEBUG}",
    "time limit": "the kernel did not finish within {} s and was stopped: is there an endless loop, or a barrier that "
    "some threads never reach?",
    "worker died": "the process that holds the GPU ended unexpectedly ({})",
    "no answer": "the process that holds the GPU did not answer within {} s and was stopped",
}

#: After these errors, the CUDA context no longer works.
FATAL = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        "ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS", "INVALID_ADDRESS_SPACE", "ILLEGAL_INSTRUCTION", "INVALID_PC",
        "HARDWARE_STACK_ERROR", "ASSERT", "LAUNCH_TIMEOUT", "LAUNCH_FAILED", "UNKNOWN", "CONTEXT_IS_DESTROYED",
        "ECC_UNCORRECTABLE", "TENSOR_MEMORY_LEAK", "EXTERNAL_DEVICE",
    )
)  # fmt: skip

#: Added to the message if the context was lost.
AFTERWARDS = "Your session continues; the next call starts afresh on the GPU."

#: Packages of the extra `gpu`: what is imported, and what is installed.
PACKAGES = {"cuda.bindings": "cuda-bindings", "cuda.core": "cuda-core"}


def in_words(name: str, detail: object = "") -> str:
    """The sentence for an error, followed by the driver's name for it."""
    shown = f"{detail:g}" if isinstance(detail, float) else detail
    sentence = _SENTENCES[name].format(shown) if name in _SENTENCES else "the driver reports an error"
    return f"{sentence} ({name})" if name.startswith("CUDA_") else sentence


def after(message: str) -> str:
    """The message, followed by a note about the session."""
    return f"{message}{'' if message.endswith(('.', '?')) else '.'} {AFTERWARDS}"


def missing(names: list[str]) -> str:
    """Which Python packages are missing, and how to install them."""
    verb = "is" if len(names) == 1 else "are"
    return f"{listing(names, 'and')} {verb} not installed; {INSTALL}"


def too_old(name: str, capability: tuple[int, int]) -> str:
    """Why a GPU is too old for tensor cores; empty if it has them."""
    if capability >= (7, 0):
        return ""
    return (
        f"{name} has compute capability {_dotted(capability)}; tensor cores came with 7.0 (Volta: V100, and Turing: T4)"
    )


def unknown_chip(name: str, capability: tuple[int, int]) -> str:
    """Why a GPU is not in the tables; empty if it is."""
    if f"sm_{capability[0]}{capability[1]}" in TARGETS:
        return ""
    unknown = "which this version of tcemu does not know; update tcemu"
    return f"{name} has compute capability {_dotted(capability)}, {unknown}"


def unfit(name: str, capability: tuple[int, int], cuda: int, version: tuple[int, int], chips: tuple[int, ...]) -> str:
    """Why NVRTC `version`, which compiles for `chips`, does not fit a GPU with a driver of CUDA `cuda`; or empty."""
    nvrtc, number = f"NVRTC {_dotted(version)}", capability[0] * 10 + capability[1]
    gpu = f"{name}, which has compute capability {_dotted(capability)}"
    if number < min(chips):
        return f"{nvrtc} no longer compiles for {gpu}; NVRTC 12 does: {TWELVE}"
    if number not in chips:
        return f"{nvrtc} does not yet compile for {gpu}; {UPGRADE}"
    if version[0] > cuda // 1000:
        driver = f"this one is for CUDA {cuda // 1000}.{cuda % 1000 // 10}"
        return f"{nvrtc} compiles for drivers of CUDA {version[0]}, and {driver}: update the driver, or {TWELVE}"
    return ""


def first_line(error: Exception) -> str:
    """The first line of an error's message, without a full stop; the error's name if it has no message."""
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
