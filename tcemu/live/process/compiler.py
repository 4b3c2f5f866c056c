"""NVRTC, CUDA's compiler, through cuda-core: from CUDA C++ to code for the GPU.

Only worker.py's process imports this. The code is a cubin, which every driver of NVRTC's major CUDA version can load.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from tcemu.live.process.device import Device
from tcemu.live.process.job import Failed, Failure, Job
from tcemu.live.process.troubles import first_line, in_words, unfit


def compiled(core: Any, chip: Device, job: Job) -> Any:
    """The module with the job's kernel. Raises Failed if NVRTC is missing or does not fit this chip and driver."""
    version, chips = _nvrtc()
    if obstacle := unfit(chip.name, chip.capability, chip.cuda, version, chips):
        raise Failed(Failure("unavailable", obstacle))
    options = core.ProgramOptions(name="kernel.cu", arch=chip.target, std="c++17", **_options(job.options))
    return core.Program(job.code, "c++", options).compile("cubin", name_expressions=(job.kernel,))


def _nvrtc() -> tuple[tuple[int, int], tuple[int, ...]]:
    """The version of NVRTC, such as (13, 0), and the numbers of the chips that it compiles for: 90 is sm_90."""
    try:
        nvrtc = import_module("cuda.bindings.nvrtc")
        _, *version = nvrtc.nvrtcVersion()
        _, chips = nvrtc.nvrtcGetSupportedArchs()
    except Exception as error:  # noqa: BLE001 - each version reports a missing library in its own way
        raise Failed(Failure("unavailable", in_words("no nvrtc", first_line(error)))) from None
    return (int(version[0]), int(version[1])), tuple(int(chip) for chip in chips)


def _options(words: tuple[str, ...]) -> dict[str, Any]:
    """NVRTC's -I and -D under cuda-core's names."""
    include = [word[2:] for word in words if word.startswith("-I")]
    macros = [word[2:] for word in words if word.startswith("-D")]
    pairs = [tuple(word.split("=", 1)) if "=" in word else word for word in macros]
    options = {"include_path": include + _headers(), "define_macro": pairs}
    return {name: value for name, value in options.items() if value}


@cache
def _headers() -> list[str]:
    """The folders of CUDA's own headers that are installed: NVRTC's wheel does not contain them."""
    return [path for part in ("cudart", "cccl", "nvcc") if (path := _header(part))]


def _header(part: str) -> str:
    """The folder of a component's headers; empty if it or cuda-pathfinder is not installed."""
    try:
        return str(import_module("cuda.pathfinder").find_nvidia_header_directory(part) or "")
    except Exception:  # noqa: BLE001 - whatever its version raises, kernels without includes need none of it
        return ""
