"""What can go wrong on a GPU or before it, as sentences: what happened, and what helps."""

from __future__ import annotations

from tcemu.errors import listing
from tcemu.instructions import TARGETS

INSTALL = 'pip install "tcemu[gpu]"'
UPGRADE = 'pip install --upgrade "tcemu[gpu]"'
#: What compiles for Volta, and for drivers of CUDA 12.
TWELVE = 'pip install "tcemu[gpu]" "cuda-bindings==12.*" "cuda-toolkit==12.*"'
_DEBUG = "compute-sanitizer finds the line"
#: The driver's name for an address that the hardware does not take.
MISALIGNED = "CUDA_ERROR_MISALIGNED_ADDRESS"

#: By the driver's own name of the error, or ours; {} is what there is to say besides.
_WORDS = {
    "no driver": "NVIDIA's driver is not installed, or this process does not find it ({}). "
    f"{INSTALL} brings the Python packages only; the driver comes with the system, and a container is started with "
    "--gpus all",
    "packages": f"NVIDIA's Python packages do not load ({{}}): {UPGRADE}",
    "packages and driver": "NVIDIA's Python packages fail with this driver ({}): update the driver, or "
    f"{UPGRADE}, or for a driver of CUDA 12 {TWELVE}",
    "no nvrtc": f"NVRTC, the compiler of CUDA C++, does not load ({{}}): {INSTALL}; beside cuda-bindings 12, {TWELVE}",
    "CUDA_ERROR_NO_DEVICE": "the driver is there, but no GPU: is CUDA_VISIBLE_DEVICES set, or the container started "
    "without --gpus?",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "the driver's kernel module and its library are of different versions; a "
    "restart helps",
    "CUDA_ERROR_INSUFFICIENT_DRIVER": "the driver is older than the Python packages need; update it",
    "CUDA_ERROR_OUT_OF_MEMORY": "the GPU has not enough free memory for these operands; give fewer warps at a time",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "the driver is too old for this PTX version; update the driver",
    "CUDA_ERROR_INVALID_PTX": "the driver does not take this PTX",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the code was compiled for another GPU than this one",
    "CUDA_ERROR_NOT_FOUND": "the code has no kernel of this name",
    "CUDA_ERROR_INVALID_VALUE": "the launch does not fit this GPU: look at grid, block, shared memory and the "
    "arguments",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "a block needs more registers or shared memory than the GPU has; make it "
    "smaller",
    "CUDA_ERROR_ILLEGAL_ADDRESS": f"a thread read or wrote an address that no array has; {_DEBUG}",
    MISALIGNED: f"a thread used an address that is not aligned as its access needs; {_DEBUG}",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": "a thread used an address of another state space than the instruction takes; "
    f"{_DEBUG}",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "a thread met an instruction that this GPU does not have, or whose operands it "
    "refuses",
    "CUDA_ERROR_INVALID_PC": "a thread jumped to an address where no code is",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "a thread's stack broke: too deep a recursion",
    "CUDA_ERROR_ASSERT": "an assert in the kernel failed; what it said stands on standard error",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "the driver stopped the kernel: a GPU with a screen attached stops kernels after some "
    "seconds",
    "CUDA_ERROR_LAUNCH_FAILED": "the kernel broke off, as after a trap or a wrong address in shared memory; "
    f"{_DEBUG}",
    "time limit": "the kernel did not end within {} s, so it was stopped: an endless loop, or a barrier that some "
    "threads never reach?",
    "worker died": "the process that holds the GPU ended unexpectedly ({})",
    "no answer": "the process that holds the GPU gave no answer within {} s and was stopped",
}

#: After these the CUDA context answers nothing any more.
FATAL = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        "ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS", "INVALID_ADDRESS_SPACE", "ILLEGAL_INSTRUCTION", "INVALID_PC",
        "HARDWARE_STACK_ERROR", "ASSERT", "LAUNCH_TIMEOUT", "LAUNCH_FAILED", "UNKNOWN", "CONTEXT_IS_DESTROYED",
        "ECC_UNCORRECTABLE", "TENSOR_MEMORY_LEAK", "EXTERNAL_DEVICE",
    )
)  # fmt: skip

#: What the user is told after a failure that cost the context.
AFTERWARDS = "Your session goes on; the next call starts afresh on the GPU."

#: Packages of the extra `gpu`: what is imported, and what is installed.
PACKAGES = {"cuda.bindings": "cuda-bindings", "cuda.core": "cuda-core"}


def in_words(name: str, detail: object = "") -> str:
    """The sentence for an error; the driver's name of it stands behind."""
    shown = f"{detail:g}" if isinstance(detail, float) else detail
    told = _WORDS[name].format(shown) if name in _WORDS else "the driver reports an error"
    return f"{told} ({name})" if name.startswith("CUDA_") else told


def after(message: str) -> str:
    """The message, and that the user's session goes on."""
    return f"{message}{'' if message.endswith(('.', '?')) else '.'} {AFTERWARDS}"


def missing(names: list[str]) -> str:
    """Which Python packages are not there, and how they come."""
    verb = "is" if len(names) == 1 else "are"
    return f"{listing(names, 'and')} {verb} not installed: {INSTALL}"


def too_old(name: str, capability: tuple[int, int]) -> str:
    """Why a GPU has no tensor cores; empty for one that has them."""
    if capability >= (7, 0):
        return ""
    return (
        f"{name} has compute capability {_dotted(capability)}; tensor cores came with 7.0 (Volta: V100, and Turing: T4)"
    )


def unknown_chip(name: str, capability: tuple[int, int]) -> str:
    """Why a GPU is not in the tables; empty for one that is."""
    if f"sm_{capability[0]}{capability[1]}" in TARGETS:
        return ""
    told = f"{name} has compute capability {_dotted(capability)}"
    return f"{told}, which this version of tcemu does not know; update tcemu"


def unfit(
    name: str, capability: tuple[int, int], cuda: int, version: tuple[int, int], chips: tuple[int, ...]
) -> str:
    """Why NVRTC `version`, which compiles for `chips`, is none for a GPU and a driver of CUDA `cuda`; else empty."""
    nvrtc, number = f"NVRTC {_dotted(version)}", capability[0] * 10 + capability[1]
    told = f"{nvrtc} does not compile for {name}, which has compute capability {_dotted(capability)}"
    if number < min(chips):
        return f"{told}, any more; NVRTC 12 does: {TWELVE}"
    if number not in chips:
        return f"{told}, yet: {UPGRADE}"
    if version[0] > cuda // 1000:
        driver = f"this one is of CUDA {cuda // 1000}.{cuda % 1000 // 10}"
        return f"{nvrtc} compiles for drivers of CUDA {version[0]}, and {driver}: update the driver, or {TWELVE}"
    return ""


def first_line(error: Exception) -> str:
    """The first line of what an error says, without a full stop; its name where it says nothing."""
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
