"""A learner's kernel as text, in Python or CUDA C++, made ready to launch."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu import cuda
from tcemu.course.cuda_answers import GARBAGE
from tcemu.course.ladder.table import GIVEN, Rung
from tcemu.entered import Entered
from tcemu.errors import CourseError, TcemuError, briefly, listing
from tcemu.launcher import launch
from tcemu.machine.launch import Launch
from tcemu.machine.mapped import tensor_map
from tcemu.simt.together import unset_registers
from tcemu.tracebacks import described

Array = npt.NDArray[Any]

_SHAPE = "LAUNCH must be TILE_M, TILE_N, THREADS and SHARED, the bytes of shared memory"
_BOXES = (
    ", and in CUDA C++ the rows of A's and of B's box, for kernels that take tensor maps; got {got}. "
    "The given kernels show it"
)
#: How many numbers LAUNCH has for a kernel that takes tensor maps, and a map's bytes.
_WITH_BOXES, _MAP_BYTES = 6, 128
#: Elements of a box's row: 128 bytes of f16.
_DEPTH = 64


@dataclass
class Program:
    """A kernel, how it is launched, and which functions of tcemu it has entered."""

    language: str
    text: str
    kernel: Any
    shape: tuple[int, ...]
    entered: set[str]

    @property
    def boxed(self) -> str:
        """Where the boxes of its tensor maps come from, in words, on a line of its own; empty if it gets none."""
        _, _, _, _, *boxes = self.shape
        return "\n  LAUNCH asks for boxes of {} rows of A and {} of B".format(*boxes) if boxes else ""

    def misfit(self, rung: Rung) -> str:
        """What of a kernel in CUDA C++ does not fit the rung's launch, in words; empty if nothing."""
        if self.language == "py":
            return ""
        maps = self.kernel.parameters[0].size == _MAP_BYTES
        if maps != (len(self.shape) == _WITH_BOXES):
            so = "ends with the rows of A's and of B's box" if maps else "has no boxes"
            return (
                f"the kernel takes {'tensor maps' if maps else 'pointers'}, so LAUNCH {so}; got {listing(self.shape)}"
            )
        shape = self.kernel.executable.function.directives.get("reqnctapercluster", (1, 1, 1))
        wanted, has = (", ".join(map(str, each)) for each in ((*rung.cluster, 1), shape))
        if wanted == has:
            return ""
        if rung.cluster == (1, 1):
            return f"this rung has no clusters, and the kernel has __cluster_dims__({has})"
        return f"the clusters of this rung need __cluster_dims__({wanted}) before the kernel's name; it has {has}"

    def run(
        self, rung: Rung, a: Array, b: Array, d: Array, *, watched: bool = False, clusters: int = 1, **options: Any
    ) -> Launch:
        """Launch the kernel for D = A B^T; `options` are those of tcemu.launch. Raises TcemuError, or what it raises.

        A persistent kernel gets so many `clusters`, fewer than there are tiles, so that it must loop over them.
        With `watched`, which takes time, the functions of tcemu that a kernel in Python calls are noted.
        """
        tile_m, tile_n, threads, shared, *boxes = self.shape
        across, down = rung.cluster
        grid = -(-len(b) // (tile_n * across)) * across, -(-len(a) // (tile_m * down)) * down
        if rung.persistent:
            grid = clusters * across, down
        if self.language == "py":
            cluster = None if rung.cluster == (1, 1) else rung.cluster
            kernel = Entered(self.entered).around(self.kernel) if watched else self.kernel
            return launch(kernel, grid, threads, (a, b, d), shared=shared, cluster=cluster, **options)
        given: Sequence[Any] = (a, b)
        if boxes:
            given = [tensor_map(each, (_DEPTH, rows), swizzle=128) for each, rows in zip((a, b), boxes, strict=True)]
        sizes = (np.int32(each) for each in (len(a), len(b), a.shape[1]))
        with unset_registers(GARBAGE):
            result: Launch = self.kernel(grid, threads, *given, d, *sizes, shared=shared, **options)
        return result


def language_of_text(text: str) -> str:
    """Return "cu" for CUDA C++, "py" for Python.

    >>> from tcemu.course.ladder.programs import language_of_text
    >>> language_of_text("def kernel(warp, a, b, d): ...")
    'py'
    """
    return "cu" if "__global__" in text else "py"


def read(text: str, name: str) -> Program:
    """The program of a text; `name` is the file's, which reports and errors give. Raises CourseError in words.

    >>> from tcemu.course.ladder.programs import read
    >>> read("LAUNCH = 16, 16, 256, 0; kernel = print", "my_gemm.py").shape
    (16, 16, 256, 0)
    """
    make = _cuda if language_of_text(text) == "cu" else _python
    return make(text, name)


def _python(text: str, name: str) -> Program:
    if name not in linecache.cache:
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    held: dict[str, Any] = {"__name__": "my_gemm"}
    entered = Entered()
    try:
        entered.call(_executed, text, name, held)
    except Exception as error:
        raise CourseError(f"the program raises {described(error)}") from error
    if not callable(held.get("kernel")):
        raise CourseError("the program has no function kernel(warp, a, b, d)")
    return Program("py", text, held["kernel"], _shape(held.get("LAUNCH")), set())


def _executed(text: str, name: str, held: dict[str, Any]) -> None:
    exec(compile(text, name, "exec"), held)  # noqa: S102 - the learner's own program, in the learner's own process


def _cuda(text: str, name: str) -> Program:
    if not cuda.available():
        raise CourseError('a kernel in CUDA C++ needs NVRTC: pip install "tcemu[cuda]". Or climb in Python')
    from tcemu.cuda.module import compiled

    try:
        module = compiled(text, name, Path.cwd(), "sm_90a", {}, [str(GIVEN)], [])
    except TcemuError as error:
        raise CourseError(str(error)) from error
    for wanted in ("kernel", "LAUNCH"):
        if wanted not in (*module.kernels, *module.variables):
            what = 'extern "C" __global__ void kernel(...)' if wanted == "kernel" else "__device__ int LAUNCH[]"
            raise CourseError(f"the program has no {what}")
    return Program("cu", text, module["kernel"], _shape(np.asarray(module["LAUNCH"]).tolist()), set())


def _shape(given: Any) -> tuple[int, ...]:
    """LAUNCH as numbers."""
    try:
        numbers = tuple(int(each) for each in given)
    except (TypeError, ValueError):
        numbers = ()
    if (
        len(numbers) not in (4, _WITH_BOXES)
        or min(numbers[:3]) < 1
        or numbers[3] < 0
        or min(numbers[4:], default=1) < 1
    ):
        raise CourseError(f"{_SHAPE}{_BOXES.format(got=briefly(given))}")
    return numbers


#: How a program is made, for tests that replace the compiler.
Read = Callable[[str, str], Program]
