"""The GPU itself, through NVIDIA's Python packages. Only the process of worker.py imports this."""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tcemu.live.process.compiler import compiled
from tcemu.live.process.device import Device
from tcemu.live.process.job import Argument, Array, Failed, Failure, Job
from tcemu.live.process.troubles import FATAL, UPGRADE, first_line, in_words, too_old, unknown_chip
from tcemu.machine.im2col import Im2colMap
from tcemu.machine.tensor_map import TensorMap

#: How many compiled kernels are kept, and how many bytes of GPU memory stay reserved for the next launch.
_KERNELS, _KEPT = 8192, 1 << 30

#: What the driver calls a tensor map's elements, swizzles and fills.
_DATA_TYPES = {
    "u8": "CU_TENSOR_MAP_DATA_TYPE_UINT8",
    "u16": "CU_TENSOR_MAP_DATA_TYPE_UINT16",
    "u32": "CU_TENSOR_MAP_DATA_TYPE_UINT32",
    "s32": "CU_TENSOR_MAP_DATA_TYPE_INT32",
    "u64": "CU_TENSOR_MAP_DATA_TYPE_UINT64",
    "s64": "CU_TENSOR_MAP_DATA_TYPE_INT64",
    "f16": "CU_TENSOR_MAP_DATA_TYPE_FLOAT16",
    "bf16": "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16",
    "tf32": "CU_TENSOR_MAP_DATA_TYPE_TFLOAT32",
    "f32": "CU_TENSOR_MAP_DATA_TYPE_FLOAT32",
    "f64": "CU_TENSOR_MAP_DATA_TYPE_FLOAT64",
}
_SWIZZLES = {bytes_: f"CU_TENSOR_MAP_SWIZZLE_{f'{bytes_}B' if bytes_ else 'NONE'}" for bytes_ in (0, 32, 64, 128)}
_FILLS = {
    "zeros": "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE",
    "nan": "CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA",
}


def _core() -> Any:
    """The module cuda-core under either of its names."""
    for name in ("cuda.core", "cuda.core.experimental"):
        try:
            module = import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:  # it is installed, but something that it needs is not
                raise
            continue
        if hasattr(module, "Program"):
            return module
    raise Failed(Failure("unavailable", f"cuda-core is too old: {UPGRADE}", fatal=True))


class Gpu:
    """Device 0 and its context."""

    def __init__(self) -> None:
        with _or_unavailable("packages"):
            self.driver = import_module("cuda.bindings.driver")
            self.core = _core()
        with _or_unavailable("no driver"):
            (status,) = self.driver.cuInit(0)
        if status != self.driver.CUresult.CUDA_SUCCESS:
            raise Failed(Failure("unavailable", in_words(status.name), fatal=True))
        if not self._ask(self.driver.cuDeviceGetCount()):
            raise Failed(Failure("unavailable", in_words("CUDA_ERROR_NO_DEVICE"), fatal=True))
        self.device = self._describe()
        with _or_unavailable("packages and driver"):
            self.chip = self.core.Device(0)
            self.chip.set_current()
            self.stream = self.chip.create_stream()
            self.raw_stream = self.driver.CUstream(int(self.stream.handle))
        self.kernels: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self.buffers: dict[int, tuple[int, int]] = {}
        self.flush = _c_flush()

    def _describe(self) -> Device:
        driver, ask = self.driver, self._ask
        chip = ask(driver.cuDeviceGet(0))
        named = driver.CUdevice_attribute

        def attribute(name: str) -> int:
            return int(ask(driver.cuDeviceGetAttribute(getattr(named, f"CU_DEVICE_ATTRIBUTE_{name}"), chip)))

        name = ask(driver.cuDeviceGetName(128, chip)).split(b"\0")[0].decode().strip()
        capability = attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")
        shared = attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        device = Device(name, capability, int(ask(driver.cuDriverGetVersion())), _driver_name(), shared)
        for obstacle in (too_old(name, capability), unknown_chip(name, capability)):
            if obstacle:
                raise Failed(Failure("unavailable", obstacle, fatal=True))
        return device

    # ------------------------------------------------------------------------------------------ one job

    def run(self, job: Job) -> dict[str, Array]:
        """Launch, wait, and bring back what the kernel wrote."""
        driver = self.driver
        kernel = self._kernel(job)
        places = [
            argument.value if argument.direction == "scalar" else self._place(index, argument)
            for index, argument in enumerate(job.arguments)
        ]
        pointers = [
            place if argument.tensor_map is None else self._describe_tensor(index, argument.tensor_map, place)
            for index, (argument, place) in enumerate(zip(job.arguments, places, strict=True), len(places))
        ]
        options: dict[str, Any] = {"shmem_size": job.shared} if job.shared else {}
        config = self.core.LaunchConfig(grid=job.grid, block=job.block, **options)
        try:
            for _ in range(job.launches):
                self.core.launch(self.stream, config, kernel, *pointers)
        except Exception as error:  # noqa: BLE001 - each version of cuda-core has errors of its own
            raise _failed(error, "gpu") from None
        self._wait(job.seconds)
        arrays = {}
        for argument, place in zip(job.arguments, places, strict=True):
            if argument.direction in ("out", "both"):
                out = np.empty_like(argument.value) if argument.value is not None else _empty(argument)
                if out.nbytes:
                    self._ask(driver.cuMemcpyDtoH(out.ctypes.data, driver.CUdeviceptr(place), out.nbytes))
                arrays[argument.name] = out
        self._release()
        return arrays

    def _place(self, index: int, argument: Argument) -> int:
        """GPU memory with an array argument; an array that the kernel should write is filled with junk."""
        size = argument.value.nbytes if argument.value is not None else _empty(argument).nbytes
        place, room = self.buffers.get(index, (0, 0))
        if size > room or not place:
            if place:  # nothing that could use it is still running
                self._ask(self.driver.cuMemFree(self.driver.CUdeviceptr(place)))
                del self.buffers[index]
            room = max(size, 256)
            place = int(self._ask(self.driver.cuMemAlloc(room)))
            self.buffers[index] = place, room
        # In the kernel's own stream: a copy from pageable memory may return before its last bytes are on the GPU, and
        # the kernel does not wait for another stream.
        target = self.driver.CUdeviceptr(place)
        if argument.value is not None and size:
            self._ask(self.driver.cuMemcpyHtoDAsync(target, argument.value.ctypes.data, size, self.raw_stream))
        elif size:
            self._ask(self.driver.cuMemsetD8Async(target, 0xA5, size, self.raw_stream))
        return place

    def _describe_tensor(self, index: int, tensor_map: TensorMap, place: int) -> int:
        """The address of the 128 bytes that describe a tensor at `place`, in memory of their own."""
        driver = self.driver
        counted = {"u64": driver.cuuint64_t, "u32": driver.cuuint32_t}

        def many(unit: str, numbers: Sequence[int]) -> list[Any]:
            return [counted[unit](number) for number in numbers]

        box: tuple[Any, ...] = (many("u32", tensor_map.box),)
        if isinstance(tensor_map, Im2colMap):
            box = (list(tensor_map.lower), list(tensor_map.upper), *tensor_map.box)
        encoded = self._ask(
            getattr(driver, tensor_map.encoder)(
                getattr(driver.CUtensorMapDataType, _DATA_TYPES[tensor_map.element]),
                tensor_map.rank,
                place + tensor_map.address,
                many("u64", tensor_map.sizes),
                many("u64", tensor_map.strides or (0,)),
                *box,
                many("u32", tensor_map.element_strides),
                driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                getattr(driver.CUtensorMapSwizzle, _SWIZZLES[tensor_map.swizzle]),
                driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
                getattr(driver.CUtensorMapFloatOOBfill, _FILLS[tensor_map.fill]),
            )
        )
        words = np.array([int(word) for word in encoded.opaque], np.uint64)
        return self._place(index, Argument("tensor map", "in", words))

    def _release(self) -> None:
        """Release large memory, so that other programs on this GPU can use it."""
        for index, (place, room) in list(self.buffers.items()):
            if room > _KEPT:
                self._ask(self.driver.cuMemFree(self.driver.CUdeviceptr(place)))
                del self.buffers[index]

    def _wait(self, seconds: float) -> None:
        driver, start = self.driver, time.monotonic()
        while True:
            (status,) = driver.cuStreamQuery(self.raw_stream)
            if status == driver.CUresult.CUDA_SUCCESS:
                self._ask(driver.cuStreamSynchronize(self.raw_stream))  # what the kernel printed is now in C's buffer
                self.flush()
                return
            if status != driver.CUresult.CUDA_ERROR_NOT_READY:
                raise Failed(Failure("gpu", in_words(status.name), fatal=True))
            past = time.monotonic() - start
            if past > seconds:
                raise Failed(Failure("gpu", in_words("time limit", seconds), fatal=True))
            if past > 0.002:
                time.sleep(0.001)

    # ------------------------------------------------------------------------------------------ code

    def _kernel(self, job: Job) -> Any:
        key = job.language, job.code, job.kernel, job.options
        if key not in self.kernels:
            if len(self.kernels) >= _KERNELS:
                self.kernels.clear()
            self.kernels[key] = self._compile(job)
        _, kernel = self.kernels[key]  # the module is kept because the kernel lives in it
        if job.shared > 48 * 1024:
            self._allow_shared(kernel, job.shared)
        return kernel

    def _compile(self, job: Job) -> tuple[Any, Any]:
        try:
            if job.language == "ptx":
                module = self.core.ObjectCode.from_ptx(job.code.encode())
                return module, module.get_kernel(job.kernel)
            module = compiled(self.core, self.device, job)
            return module, module.get_kernel(job.kernel)
        except Failed:
            raise
        except Exception as error:  # noqa: BLE001 - likewise
            raise _failed(error, "compilation") from None

    def _allow_shared(self, kernel: Any, size: int) -> None:
        handle = getattr(kernel, "handle", None) or kernel._handle  # noqa: SLF001 - older versions have no other name
        what = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        kernel, chip = self.driver.CUkernel(int(handle)), self.driver.CUdevice(0)
        self._ask(self.driver.cuKernelSetAttribute(what, size, kernel, chip))

    def _ask(self, answer: Sequence[Any]) -> Any:
        """The value of a driver call that succeeded."""
        status, *values = answer
        if status != self.driver.CUresult.CUDA_SUCCESS:
            raise Failed(Failure("gpu", in_words(status.name), fatal=status.name in FATAL))
        return values[0] if values else None

    def close(self) -> None:
        """Nothing to do: the context goes with the process."""


def _empty(argument: Argument) -> Array:
    return np.empty(argument.shape, np.dtype(argument.dtype))


def _failed(error: Exception, kind: Any) -> Failed:
    """An exception of cuda-core as one of ours."""
    text = str(error).replace("\0", "").strip()
    code = re.search(r"CUDA_ERROR_[A-Z_]+", text)
    if code:
        return Failed(Failure("gpu", in_words(code[0]), fatal=code[0] in FATAL))
    return Failed(Failure(kind, text))


def _c_flush() -> Callable[[], object]:
    """The function that flushes C's buffer of standard output."""
    try:
        flush = ctypes.CDLL(None).fflush
    except (OSError, TypeError, AttributeError):  # Windows has no such library
        return lambda: None
    return lambda: flush(None)


@contextmanager
def _or_unavailable(what: str) -> Iterator[None]:
    """Any failure inside means that there is no usable GPU; `what` is its name in troubles.py."""
    try:
        yield
    except Failed:
        raise
    except Exception as error:  # noqa: BLE001 - each version has errors of its own
        raise Failed(Failure("unavailable", in_words(what, first_line(error)), fatal=True)) from None


def _driver_name() -> str:
    """The driver's own version, if the system reports it."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return ""
    match = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", text)
    return match[1] if match else ""
