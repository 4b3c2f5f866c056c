"""What a GPU answers for the kernels in tests/cuda/corpus: PTX made there, and SHA-256 of every array after.

    python3 tools/record_cuda.py OUT

Needs the extra `gpu` and an H100 or H200. Writes OUT/sm_90a-cuda.json.xz, which belongs in tests/golden, and
OUT/outputs.npz, whole arrays for whoever looks for the reason of a difference.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "cuda"))

from cases import CASES, SCALARS, Case  # noqa: E402

OPTIONS = ["--gpu-architecture=compute_90a", "-std=c++17", "-default-device", "-lineinfo", "--device-int128"]


def checked(result: Any) -> Any:
    """The values that a call of CUDA returned. Raises RuntimeError if it failed."""
    error, *values = result
    if int(error):
        raise RuntimeError(f"{type(error).__name__}: {error!r}")
    return values[0] if len(values) == 1 else values


def headers() -> list[str]:
    """Options that name CUDA's headers: of the wheels, or of an installed toolkit."""
    wheels = (Path(each) / "nvidia" / "cu13" for each in sys.path)
    homes = [*wheels, Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))]
    home = next(each for each in homes if (each / "include" / "cccl").is_dir())
    return [f"-I{home}/include", f"-I{home}/include/cccl"]


def compiled(source: Path) -> str:
    """The PTX of a file."""
    from cuda.bindings import nvrtc

    program = checked(nvrtc.nvrtcCreateProgram(source.read_bytes(), source.name.encode(), 0, [], []))
    options = [each.encode() for each in (*OPTIONS, *headers())]
    failed = int(nvrtc.nvrtcCompileProgram(program, len(options), options)[0])
    size = checked(nvrtc.nvrtcGetProgramLogSize(program) if failed else nvrtc.nvrtcGetPTXSize(program))
    text = b" " * size
    checked((nvrtc.nvrtcGetProgramLog if failed else nvrtc.nvrtcGetPTX)(program, text))
    if failed:
        raise RuntimeError(text.decode())
    return str(text.decode().rstrip("\0")).replace(f"{Path.cwd()}/", "")  # files are named as in the repository


def ran(case: Case, ptx: str) -> list[Any]:
    """The arrays of a case after its launch."""
    from cuda.bindings import driver

    module = checked(driver.cuModuleLoadData(ptx.encode()))
    function = checked(driver.cuModuleGetFunction(module, case.kernel.encode()))
    arrays, words = [], []
    for given in case.args():
        if isinstance(given, np.ndarray):
            array = np.ascontiguousarray(given)
            where = checked(driver.cuMemAlloc(array.nbytes))
            checked(driver.cuMemcpyHtoD(where, array.ctypes.data, array.nbytes))
            arrays.append((array, where))
            words.append(int(where).to_bytes(8, "little"))
        else:
            words.append(given if isinstance(given, bytes) else given.tobytes())
    kept = [ctypes.create_string_buffer(each, len(each)) for each in words]
    pointers = (ctypes.c_void_p * len(kept))(*[ctypes.addressof(each) for each in kept])
    grid, block = (((*((each,) if isinstance(each, int) else each), 1, 1))[:3] for each in (case.grid, case.block))
    checked(driver.cuLaunchKernel(function, *grid, *block, case.shared, 0, ctypes.addressof(pointers), 0))
    checked(driver.cuCtxSynchronize())
    for array, where in arrays:
        checked(driver.cuMemcpyDtoH(array.ctypes.data, where, array.nbytes))
        checked(driver.cuMemFree(where))
    return [array for array, _ in arrays]


def begun() -> dict[str, str]:
    """Makes the first GPU the current one, and says which it is, its driver and the compiler."""
    from cuda.bindings import driver, nvrtc

    checked(driver.cuInit(0))
    device = checked(driver.cuDeviceGet(0))
    checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(device))))
    asked = ["nvidia-smi", "--id=0", "--query-gpu=driver_version", "--format=csv,noheader"]
    return {
        "gpu": checked(driver.cuDeviceGetName(100, device)).decode().strip("\0 "),
        "driver": subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip(),  # noqa: S603 - ours
        "compiler": "NVRTC {}.{}".format(*checked(nvrtc.nvrtcVersion())),
    }


def main() -> None:
    """Record every case."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    about = begun()
    texts: dict[str, str] = {}
    hashes: dict[str, list[str]] = {}
    outputs: dict[str, Any] = {}
    cases = [*CASES, *SCALARS]
    for source in sorted({case.source for case in cases}):
        texts[source.stem] = compiled(source)
    for case in cases:
        arrays = ran(case, texts[case.file])
        hashes[str(case)] = [hashlib.sha256(each.tobytes()).hexdigest() for each in arrays]
        outputs |= {f"{case}-{number}": each for number, each in enumerate(arrays)}
        print(case, flush=True)
    golden = {**about, "options": OPTIONS, "ptx": texts, "sha256": hashes}
    (out / "sm_90a-cuda.json.xz").write_bytes(lzma.compress(json.dumps(golden, indent=1).encode(), preset=9))
    np.savez_compressed(out / "outputs.npz", **outputs)


if __name__ == "__main__":
    main()
