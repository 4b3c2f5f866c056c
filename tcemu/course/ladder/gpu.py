"""Times a rung's kernel on this machine's GPU, through the driver's own library, in a process of its own.

    python -m tcemu.course.ladder.gpu IMAGE M N K [persistent]    # prints JSON; IMAGE is a cubin or PTX

A kernel that hangs or crashes leaves the learner's Python as it is. Nothing of tcemu is imported, because
tools/record_ladder.py uses this file where only numpy is installed.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: Samples of the time, of which the median counts; about how long one sample takes, and the warm-up before them:
#: clocks fall under load, and a kernel that is timed while the card is still cool would look faster.
SAMPLES, SAMPLE_MS, WARM_MS = 11, 50.0, 500.0
#: Of D, so many rows and columns are compared with float64.
CHECKED = 32
#: Elements of a box's row: 128 bytes of f16.
DEPTH = 64

_DYNAMIC_SHARED, _CLUSTER_WIDTH, _CLUSTER_HEIGHT = 8, 11, 12  # CUfunction_attribute
_MULTIPROCESSORS = 16  # CUdevice_attribute
_FLOAT16, _SWIZZLE_128B, _L2_PROMOTION_256B = 6, 3, 3  # CUtensorMap...


class NoGpu(Exception):  # noqa: N818 - what is said about it is the message
    """There is no GPU, or it refuses the kernel."""


@dataclass(frozen=True)
class Measured:
    """What a kernel took: milliseconds (the median), and how far D is from the sums in float64."""

    milliseconds: float
    tflops: float
    error: float
    right: bool
    card: str
    driver: str
    clock: str


class Driver:
    """libcuda: each function raises NoGpu with the driver's words if it fails."""

    def __init__(self) -> None:
        name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        try:
            self._library = ctypes.CDLL(name)
        except OSError:
            raise NoGpu("there is no NVIDIA driver on this machine") from None
        self.cuInit(0)
        self.device = ctypes.c_int()
        self.cuDeviceGet(ctypes.byref(self.device), 0)
        context = ctypes.c_void_p()
        self.cuDevicePrimaryCtxRetain(ctypes.byref(context), self.device)
        self.cuCtxSetCurrent(context)

    def __getattr__(self, name: str) -> Callable[..., None]:
        function = getattr(self._library, name)

        def call(*given: Any) -> None:
            if status := function(*given):
                text = ctypes.c_char_p()
                self._library.cuGetErrorString(status, ctypes.byref(text))
                raise NoGpu(f"{name}: {(text.value or b'unknown error').decode()}")

        return call

    @property
    def card(self) -> str:
        """The GPU's name."""
        text = ctypes.create_string_buffer(128)
        self.cuDeviceGetName(text, len(text), self.device)
        return text.value.decode()

    def attribute(self, number: int) -> int:
        """An attribute of the device."""
        value = ctypes.c_int()
        self.cuDeviceGetAttribute(ctypes.byref(value), number, self.device)
        return value.value

    def allocate(self, size: int) -> ctypes.c_uint64:
        """Memory of the GPU."""
        place = ctypes.c_uint64()
        self.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(size))
        return place

    def upload(self, array: Array) -> ctypes.c_uint64:
        """A copy of an array on the GPU."""
        place = self.allocate(array.nbytes)
        self.cuMemcpyHtoD_v2(place, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))
        return place

    def download(self, place: ctypes.c_uint64, array: Array) -> Array:
        """Fill an array from the GPU."""
        self.cuMemcpyDtoH_v2(ctypes.c_void_p(array.ctypes.data), place, ctypes.c_size_t(array.nbytes))
        return array

    def median(self, launch: Callable[[], None]) -> float:
        """Milliseconds of a launch: the median of several samples, each of some launches, after a warm-up."""
        begin, end = ctypes.c_void_p(), ctypes.c_void_p()
        for event in (begin, end):
            self.cuEventCreate(ctypes.byref(event), 0)

        def sample(count: int) -> float:
            self.cuEventRecord(begin, None)
            for _ in range(count):
                launch()
            self.cuEventRecord(end, None)
            self.cuEventSynchronize(end)
            taken = ctypes.c_float()
            self.cuEventElapsedTime(ctypes.byref(taken), begin, end)
            return taken.value / count

        launch()
        count = max(1, min(500, round(SAMPLE_MS / max(sample(1), 1e-3))))
        for _ in range(round(WARM_MS / SAMPLE_MS) if count > 1 else 1):
            sample(count)
        return statistics.median(sample(count) for _ in range(SAMPLES))


@dataclass(frozen=True)
class Problem:
    """D = A B^T on the GPU, and the same matrices here."""

    driver: Driver
    a: Array
    b: Array
    places: tuple[ctypes.c_uint64, ...]

    @classmethod
    def of(cls, driver: Driver, m: int, n: int, k: int) -> Problem:
        """Standard normal numbers of f16, always the same ones, and room for D of f32."""
        rng = np.random.default_rng(47)
        a, b = (rng.standard_normal((rows, k), np.float32).astype(np.float16) for rows in (m, n))
        return cls(driver, a, b, (driver.upload(a), driver.upload(b), driver.allocate(4 * m * n)))

    @property
    def sizes(self) -> tuple[int, int, int]:
        """m, n and k."""
        return len(self.a), len(self.b), self.a.shape[1]

    def clear(self) -> None:
        """Fill D with NaN, so that what a kernel leaves out is seen."""
        m, n, _ = self.sizes
        self.driver.cuMemsetD32_v2(self.places[2], ctypes.c_uint(0xFFFFFFFF), ctypes.c_size_t(m * n))

    def d(self) -> Array:
        """D as the last launch left it."""
        m, n, _ = self.sizes
        return self.driver.download(self.places[2], np.empty((m, n), np.float32))

    def error(self, d: Array) -> float:
        """The largest difference between a sample of D and the sums in float64."""
        m, n, _ = self.sizes
        rng = np.random.default_rng(1)
        rows, columns = rng.choice(m, min(CHECKED, m), False), rng.choice(n, min(CHECKED, n), False)
        right = self.a[rows].astype(np.float64) @ self.b[columns].astype(np.float64).T
        return float(np.abs(d[np.ix_(rows, columns)] - right).max())

    def may_differ(self) -> float:
        """What rounding may make of a sum of k products of standard normal numbers; a missing step gives far more."""
        return float(np.sqrt(self.sizes[2])) / 4096

    def tflops(self, milliseconds: float) -> float:
        """10^12 operations a second: two for each multiply-add."""
        m, n, k = self.sizes
        return 2e-9 * m * n * k / milliseconds


class Loaded:
    """A kernel on the GPU, and its launch for a problem."""

    def __init__(self, driver: Driver, image: bytes) -> None:
        self.driver, self._module, self._function = driver, ctypes.c_void_p(), ctypes.c_void_p()
        self._image = ctypes.create_string_buffer(image)
        driver.cuModuleLoadData(ctypes.byref(self._module), self._image)
        driver.cuModuleGetFunction(ctypes.byref(self._function), self._module, b"kernel")
        place, size = ctypes.c_uint64(), ctypes.c_size_t()
        driver.cuModuleGetGlobal_v2(ctypes.byref(place), ctypes.byref(size), self._module, b"LAUNCH")
        self.launch = tuple(int(each) for each in driver.download(place, np.empty(size.value // 4, np.int32)))

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self.driver.cuFuncGetAttribute(ctypes.byref(value), number, self._function)
        return value.value

    def grid(self, m: int, n: int, persistent: bool) -> tuple[int, int]:
        """Blocks, across and down, in whole clusters."""
        tile_m, tile_n = self.launch[:2]
        wide, high = (max(1, self._attribute(number)) for number in (_CLUSTER_WIDTH, _CLUSTER_HEIGHT))
        if persistent:
            return self.driver.attribute(_MULTIPROCESSORS) // (wide * high) * wide, high
        return -(-n // (tile_n * wide)) * wide, -(-m // (tile_m * high)) * high

    def on(self, problem: Problem, persistent: bool = False) -> Callable[[], None]:
        """A function that launches the kernel once."""
        driver, (m, n, k), (a, b, d) = self.driver, problem.sizes, problem.places
        _, _, threads, shared, *boxes = self.launch
        given: list[Any] = [a, b]
        if boxes:
            given = [self._mapped(place, rows, k, box) for place, rows, box in zip((a, b), (m, n), boxes, strict=True)]
        given += [d, *map(ctypes.c_int, (m, n, k))]
        words = (ctypes.c_void_p * len(given))(*[ctypes.addressof(each) for each in given])
        driver.cuFuncSetAttribute(self._function, _DYNAMIC_SHARED, shared)
        across, down = self.grid(m, n, persistent)

        def launch() -> None:
            driver.cuLaunchKernel(self._function, across, down, 1, threads, 1, 1, shared, None, words, None)

        launch.kept = given  # type: ignore[attr-defined] # the words are their addresses
        return launch

    def _mapped(self, place: ctypes.c_uint64, rows: int, k: int, box: int) -> Any:
        """A CUtensorMap: boxes of `box` rows of 128 bytes, swizzled. It must be at a multiple of 64."""
        held = ctypes.create_string_buffer(192)
        descriptor = (ctypes.c_char * 128).from_buffer(held, -ctypes.addressof(held) % 64)
        self.driver.cuTensorMapEncodeTiled(
            ctypes.byref(descriptor), _FLOAT16, 2, place,
            (ctypes.c_uint64 * 2)(k, rows), (ctypes.c_uint64 * 1)(2 * k),
            (ctypes.c_uint32 * 2)(DEPTH, box), (ctypes.c_uint32 * 2)(1, 1),
            0, _SWIZZLE_128B, _L2_PROMOTION_256B, 0,
        )  # fmt: skip
        return descriptor


def versions(work: Callable[[], None]) -> tuple[str, str]:
    """The driver's version, and the clocks that nvidia-smi reports while the GPU works."""
    fields = "driver_version,clocks.sm,clocks.max.sm,power.draw,power.limit"
    asked = ["nvidia-smi", "-i", "0", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - no input
            while process.poll() is None:
                work()
            text = process.stdout.read() if process.stdout else ""
        driver, now, most, power, limit = text.splitlines()[0].split(", ")
    except (OSError, ValueError, IndexError):
        return "", ""
    return driver, f"SM clock {now} of at most {most}, {power} of {limit}"


def measured(driver: Driver, problem: Problem, launch: Callable[[], None]) -> Measured:
    """Check a kernel, then time it."""
    problem.clear()
    launch()
    error = problem.error(problem.d())
    right = error <= problem.may_differ()
    taken = driver.median(launch) if right else float("nan")

    def work() -> None:
        launch()
        driver.cuCtxSynchronize()

    version, clock = versions(work) if right else ("", "")
    return Measured(taken, problem.tflops(taken), error, right, driver.card, version, clock)


def main(image: str, *rest: str) -> None:
    """Measure a kernel and print the result as JSON."""
    m, n, k = (int(each) for each in rest[:3])
    try:
        driver = Driver()
        problem = Problem.of(driver, m, n, k)
        launch = Loaded(driver, Path(image).read_bytes()).on(problem, "persistent" in rest)
        answer: dict[str, Any] = asdict(measured(driver, problem, launch))
    except NoGpu as error:
        answer = {"refused": str(error)}
    sys.stdout.write(json.dumps(answer) + os.linesep)


if __name__ == "__main__":
    main(*sys.argv[1:])
