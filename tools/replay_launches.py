"""Replays launches of anybody's kernels on a GPU: it should answer what the emulator did, bit for bit.

    python3 tools/replay_launches.py FOLDER OUT

FOLDER holds what tools/capture_launches.py captured: NAME.npz (the arrays before the launch, how it was made, and
SHA-256 of what the emulator left in each) and the cubins. Every launch has a process of its own, so that one that hangs
or fails leaves the others alone. Prints a line for each, writes OUT/replayed.json, and OUT/NAME.npz with the GPU's
arrays where they differ. Needs numpy, cuda.bindings and a GPU; nothing of tcemu.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

#: Seconds for one launch, with CUDA's start.
LONGEST = 40
#: The driver's numbers of element types (cuda.h).
TYPES = {
    "u8": 0, "u16": 1, "u32": 2, "s32": 3, "u64": 4, "s64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9, "f32.ftz": 10,
    "tf32": 11, "tf32.ftz": 12,
}  # fmt: skip


def checked(result: Any) -> Any:
    """The values that a call of CUDA returned. Raises RuntimeError if it failed."""
    error, *values = result
    if int(error):
        raise RuntimeError(f"{error!r}")
    return values[0] if len(values) == 1 else values


def encoded(driver: Any, told: dict[str, Any], address: int) -> bytes:
    """A CUtensorMap as the driver makes it. Its function is called by hand: the order of bytes is then CUDA's own."""
    library = ctypes.CDLL("libcuda.so.1")
    rank = len(told["sizes"])
    whole, part = ctypes.c_uint64 * 5, ctypes.c_uint32 * 5
    buffer = ctypes.create_string_buffer(128 + 64)
    start = ctypes.addressof(buffer) + -ctypes.addressof(buffer) % 64
    error = library.cuTensorMapEncodeTiled(
        ctypes.c_void_p(start), TYPES[told["element"]], ctypes.c_uint32(rank), ctypes.c_void_p(address),
        whole(*told["sizes"]), whole(*told["strides"]), part(*told["box"]), part(*told["element_strides"]),
        0, (0, 32, 64, 128).index(told["swizzle"]), 0, ("zeros", "nan").index(told["fill"]),
    )  # fmt: skip
    if error:
        raise RuntimeError(f"cuTensorMapEncodeTiled: {error}")
    return ctypes.string_at(start, 128)


def launched(folder: Path, name: str) -> dict[str, Any]:
    """The arrays of one launch afterwards."""
    from cuda.bindings import driver

    stored = np.load(folder / f"{name}.npz")
    told = json.loads(str(stored["told"]))
    checked(driver.cuInit(0))
    device = checked(driver.cuDeviceGet(0))
    checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(device))))
    code = lzma.decompress((folder / told["cubin"]).read_bytes())
    function = checked(driver.cuModuleGetFunction(checked(driver.cuModuleLoadData(code)), told["kernel"].encode()))
    if told["shared"]:  # beside what it declares itself, it may be more than 48 KiB
        most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        checked(driver.cuFuncSetAttribute(function, most, told["shared"]))

    def put(array: Any) -> int:
        where = int(checked(driver.cuMemAlloc(max(array.nbytes, 1))))
        checked(driver.cuMemcpyHtoD(where, array.ctypes.data, array.nbytes))
        return where

    arrays = [np.ascontiguousarray(stored[f"array{n}"]) for n in range(told["arrays"])]
    places = [put(each) for each in arrays]
    words = []
    for parameter in told["parameters"]:
        raw = bytearray.fromhex(parameter["bytes"])
        for at, number in parameter["pointers"]:
            raw[at : at + 8] = places[number].to_bytes(8, "little")
        for at, number, tensor_map in parameter["maps"]:
            raw[at : at + 128] = encoded(driver, tensor_map, places[number])
        if parameter["by_address"]:
            raw = bytearray(put(np.frombuffer(bytes(raw), np.uint8)).to_bytes(8, "little"))
        words.append(bytes(raw))
    kept = []
    for each in words:  # at multiples of 64, as a CUtensorMap is
        room = ctypes.create_string_buffer(len(each) + 64)
        start = ctypes.addressof(room) + -ctypes.addressof(room) % 64
        ctypes.memmove(start, each, len(each))
        kept.append((room, start))
    pointers = (ctypes.c_void_p * max(len(kept), 1))(*[start for _, start in kept])
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = told["grid"]
    config.blockDimX, config.blockDimY, config.blockDimZ = told["block"]
    config.sharedMemBytes = told["shared"]
    attributes = []
    if told["cluster"]:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = told["cluster"]
        attributes.append(attribute)
    if told.get("cooperative"):
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        attribute.value.cooperative = 1
        attributes.append(attribute)
    config.attrs, config.numAttrs = attributes, len(attributes)
    checked(driver.cuLaunchKernelEx(config, function, ctypes.addressof(pointers), 0))
    checked(driver.cuCtxSynchronize())
    for array, where in zip(arrays, places, strict=True):
        checked(driver.cuMemcpyDtoH(array.ctypes.data, where, array.nbytes))
    return {f"array{n}": each for n, each in enumerate(arrays)}


def one(folder: Path, name: str, out: Path) -> None:
    """Launch, print "equal" or which arrays differ, and keep the arrays if they do."""
    found = launched(folder, name)
    hashes = [hashlib.sha256(each.tobytes()).hexdigest() for each in found.values()]
    told = json.loads(str(np.load(folder / f"{name}.npz")["told"]))
    differ = [n for n, (mine, theirs) in enumerate(zip(told["sha256"], hashes, strict=True)) if mine != theirs]
    if differ:
        np.savez_compressed(out / f"{name}.npz", **{f"array{n}": found[f"array{n}"] for n in differ})
    print("equal" if not differ else f"DIFFER in arrays {differ}")


def main(folder: Path, out: Path) -> None:
    """Replay all launches of the folder."""
    out.mkdir(parents=True, exist_ok=True)
    answers: dict[str, str] = {}
    for file in sorted(folder.glob("*.npz")):
        command = [sys.executable, __file__, str(folder), str(out), file.stem]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)  # noqa: S603
            said = done.stdout.strip().splitlines() or [f"FAILED: {(done.stderr.strip().splitlines() or ['?'])[-1]}"]
            answers[file.stem] = said[-1]  # behind what the kernel has printed
        except subprocess.TimeoutExpired:
            answers[file.stem] = f"FAILED: nothing in {LONGEST} s"
        print(f"{file.stem}: {answers[file.stem]}", flush=True)
    (out / "replayed.json").write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")
    same = sum(each == "equal" for each in answers.values())
    print(f"{same} of {len(answers)} launches left the emulator's bits in every array")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        one(Path(sys.argv[1]), sys.argv[3], Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
