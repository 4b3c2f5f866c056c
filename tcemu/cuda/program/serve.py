"""Runs a program that was linked with runtime.cpp, and answers its questions: launches, variables, tensor maps."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu import assembly
from tcemu.assembly.names import demangle
from tcemu.cuda.program.build import build
from tcemu.errors import ClusterMisfit, LaunchError, MemoryFault, TcemuError
from tcemu.machine.global_memory import ALIGN
from tcemu.machine.launch import Launch
from tcemu.machine.tensor_map import Fill, TensorMap
from tcemu.machine.tensor_map_words import words_of
from tcemu.simt import Kernel
from tcemu.simt.errors import KernelAssertion
from tcemu.simt.variables import Variables

#: Bytes of the memory of a device. The file behind it is sparse.
DEVICE = 4 << 30
#: Accesses to memory that has been freed are errors if it has no more bytes.
_HOLE = 1 << 20
#: The threads of a block at most, and the errors of launches that do not begin.
_THREADS, _ERRORS = 1024, {1: "cudaErrorInvalidValue", 912: "cudaErrorInvalidClusterSize"}
#: The element types and swizzles of tensor maps, in the order of the driver's numbers (cuda.h).
_TYPES = ["u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32", "tf32", "tf32"]
_SWIZZLES = (0, 32, 64, 128)


@dataclass
class Ran:
    """A program that has ended: its exit status, its launches in their order, and calls that failed, as sentences.

    >>> from tcemu.cuda.program import Ran
    >>> Ran(0).launches
    []
    """

    status: int
    launches: list[Launch] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def run_program(
    files: Sequence[str | Path],
    arguments: Sequence[str] = (),
    *,
    arch: str = "sm_90a",
    options: Sequence[str] = (),
    **launching: Any,
) -> Ran:
    """Compile and run a CUDA program whose kernels the machine executes, with the sanitizer listening.

    `files` are its .cu and .cpp files, `arguments` those of its main, `options` for nvcc; `launching` are options of
    tcemu.launch, such as sanitizer= and seed=, for every launch. Its output goes where ours goes. Raises
    CompilationError, and whatever a launch raises, such as UndefinedBehaviour; the program is then stopped.

    >>> tcemu.cuda.program.run_program(["scale.cu"], ["300"])  # doctest: +SKIP
    Ran(status=0, launches=[<launch of scale on sm_90a: 3 blocks of (128, 1, 1), 45 instructions, policy late>])

    The example needs nvcc.
    """
    with tempfile.TemporaryDirectory(prefix="tcemu-") as folder:
        built = build([Path(each) for each in files], arch, options, Path(folder))
        memory = Path(folder) / "device"
        with memory.open("wb") as file:
            file.truncate(DEVICE)
        device = _Device(built.ptx, arch, np.memmap(memory, np.uint8, "r+"), launching)
        with _started(built.executable, arguments, memory) as (process, questions, answers):
            for line in iter(questions.readline, b""):
                verb, *words = line.decode().split()
                answers.write(device.VERBS[verb](device, words, questions))
                answers.flush()
            status = process.wait()
        return Ran(status, device.launches, device.failures)


@contextmanager
def _started(
    executable: Path, arguments: Sequence[str], memory: Path
) -> Iterator[tuple[subprocess.Popen[bytes], BinaryIO, BinaryIO]]:
    """The program, what it asks, and where it waits for answers. It is stopped when the block ends."""
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    pipes = f"{theirs_in} {theirs_out} {ALIGN} {DEVICE} {memory}"
    process = subprocess.Popen(  # noqa: S603 - the program that the user asked for
        [str(executable), *arguments], env={**os.environ, "TCEMU_RUNTIME": pipes}, pass_fds=(theirs_in, theirs_out)
    )
    os.close(theirs_in)
    os.close(theirs_out)
    with os.fdopen(ours_in, "rb") as questions, os.fdopen(ours_out, "wb") as answers:
        try:
            yield process, questions, answers
        finally:
            process.kill()
            process.wait()


class _Allocation(NamedTuple):
    """What cudaMalloc has returned: its bytes, its name, and whether kernels may not access it any more."""

    size: int
    name: str
    hole: bool = False

    def parts(self, address: int, memory: npt.NDArray[np.uint8]) -> Iterator[tuple[str, npt.NDArray[np.uint8]]]:
        """The arrays that stand for it in a launch.

        Of a hole, single bytes, each as far from the next as GlobalMemory puts them, so that what is behind it keeps
        its place; the last one is longer if the places are odd.
        """
        if not self.hole:
            yield self.name, memory[address : address + self.size]
            return
        places = -(-self.size // ALIGN) + 1
        for place in range(0, places - 1, 2):
            start = address + place * ALIGN
            yield self.name, memory[start : start + 1 + ALIGN * (place + 3 == places)]


class _Device:
    """The answers to runtime.cpp's questions."""

    def __init__(
        self, ptx: Sequence[Path], arch: str, memory: npt.NDArray[np.uint8], launching: dict[str, Any]
    ) -> None:
        self.arch, self.memory, self.launching = arch, memory, launching
        modules = [assembly.parse(each.read_text(encoding="utf-8"), each.name) for each in ptx]
        self.modules = [(each, Variables(each)) for each in modules]
        self.kernels: dict[str, Kernel] = {}
        self.launches: list[Launch] = []
        self.failures: list[str] = []
        #: by address, in the order of addresses: what is there; and how many there have been
        self.allocations: dict[int, _Allocation] = {}
        self.count = 0

    def gap(self, words: list[str], questions: BinaryIO) -> bytes:
        """Gap ADDRESS BYTES: nothing lies there, so that what follows begins a page."""
        address, size = map(int, words)
        self.allocations[address] = _Allocation(size, "a gap", hole=True)
        return b""

    def allocated(self, words: list[str], questions: BinaryIO) -> bytes:
        """Allocated ADDRESS BYTES."""
        address, size = map(int, words)
        self.count += 1
        self.allocations[address] = _Allocation(size, f"allocation {self.count}")
        self.allocations = dict(sorted(self.allocations.items()))
        return b""

    def freed(self, words: list[str], questions: BinaryIO) -> bytes:
        """Freed ADDRESS."""
        address = int(words[0])
        size, name, _ = self.allocations[address]
        self.allocations[address] = _Allocation(size, f"{name}, which has been freed", size <= _HOLE)
        return b""

    def failed(self, words: list[str], questions: BinaryIO) -> bytes:
        """Failed CALL ERROR: WHY. The program gets the error, as from a GPU."""
        self.failures.append(" ".join(words))
        return b""

    def dereferenced(self, words: list[str], questions: BinaryIO) -> bytes:
        """Dereferenced WHAT: host code has used a pointer to the device's memory."""
        raise TcemuError(
            f"the host code reads or writes {' '.join(words)}: that is memory of the device. Copy it with cudaMemcpy, "
            "or allocate it with cudaMallocManaged"
        )

    def parameters(self, words: list[str], questions: BinaryIO) -> bytes:
        """Parameters KERNEL: the bytes of each."""
        sizes = [each.size for each in self._kernel(words[0]).parameters]
        return " ".join(map(str, sizes)).encode() + b"\n"

    def attributes(self, words: list[str], questions: BinaryIO) -> bytes:
        """Attributes KERNEL: the threads that a block may have, and the bytes of shared memory that it declares."""
        kernel = self._kernel(words[0])
        return f"{min(prod(kernel.most_threads), _THREADS)} {kernel.static_shared}\n".encode()

    def launch(self, words: list[str], questions: BinaryIO) -> bytes:
        """Launch GRID[3] BLOCK[3] SHARED CLUSTER[3] BYTES KERNEL, and the bytes of all parameters."""
        *numbers, name = words
        gx, gy, gz, bx, by, bz, shared, cx, cy, cz, count = map(int, numbers)
        raw, kernel = questions.read(count), self._kernel(name)
        kernel.memory = [
            part for address, each in self.allocations.items() for part in each.parts(address, self.memory)
        ]
        ends = np.cumsum([each.size for each in kernel.parameters]).tolist()
        given = [raw[end - each.size : end] for each, end in zip(kernel.parameters, ends, strict=True)]
        options = {**self.launching, "cluster": (cx, cy, cz)} if cx else self.launching
        shape = f"{kernel.name}<<<({gx}, {gy}, {gz}), ({bx}, {by}, {bz})>>>"
        try:
            kernel.check_block((bx, by, bz))
        except LaunchError as error:
            return self._refused(shape, error)
        try:
            self.launches.append(kernel.launch((gx, gy, gz), (bx, by, bz), *given, shared=shared, **options))
        except KernelAssertion as error:
            if error.launch is None or self.launching.get("sanitizer", "raise") == "raise":
                raise
            error.launch.error = error
            self.launches.append(error.launch)
            return b"710\n"
        except LaunchError as error:
            if error.launch is not None:
                raise
            return self._refused(shape, error)
        failed = self.launches[-1].error
        return b"0\n" if failed is None else b"700\n" if isinstance(failed, MemoryFault) else b"719\n"

    def _refused(self, shape: str, error: LaunchError) -> bytes:
        """The answer to a launch that does not begin: the error of an H200 with CUDA 13."""
        code = 912 if isinstance(error, ClusterMisfit) else 1
        self.failures.append(f"{shape} returns {_ERRORS[code]}: {error}")
        return f"{code}\n".encode()

    def _kernel(self, name: str) -> Kernel:
        """A kernel by its name in the PTX."""
        if name not in self.kernels:
            module, variables = next(each for each in self.modules if name in each[0].functions)
            self.kernels[name] = Kernel(module, name, self.arch, variables=variables)
        return self.kernels[name]

    def _with(self, name: str) -> tuple[assembly.Module, Variables]:
        """The module with a variable."""
        return next(each for each in self.modules if name in each[0].variables)

    def _variable(self, name: str) -> npt.NDArray[Any]:
        """The bytes of a variable of a module."""
        module, variables = self._with(name)
        return variables.array(module.variables[name])

    def place(self, words: list[str], questions: BinaryIO) -> bytes:
        """Place ADDRESS VARIABLE: from now on a variable lies there, where the host, too, may reach it."""
        address, name = int(words[0]), words[1]
        array = self._variable(name)
        self.memory[address : address + len(array)] = array
        module, variables = self._with(name)
        variables.place(module.variables[name], self.memory[address : address + len(array)])
        self.allocations[address] = _Allocation(len(array), f"variable {demangle(name).short}")
        self.allocations = dict(sorted(self.allocations.items()))
        return b"0\n"

    def write(self, words: list[str], questions: BinaryIO) -> bytes:
        """Write OFFSET BYTES VARIABLE, and the bytes: cudaMemcpyToSymbol."""
        offset, count, name = int(words[0]), int(words[1]), words[2]
        self._variable(name)[offset : offset + count] = np.frombuffer(questions.read(count), np.uint8)
        return b"0\n"

    def read(self, words: list[str], questions: BinaryIO) -> bytes:
        """Read OFFSET BYTES VARIABLE: cudaMemcpyFromSymbol."""
        offset, count, name = int(words[0]), int(words[1]), words[2]
        return b"0\n" + self._variable(name)[offset : offset + count].tobytes()

    def tensor_map(self, words: list[str], questions: BinaryIO) -> bytes:
        """cuTensorMapEncodeTiled: TYPE RANK ADDRESS SIZES STRIDES BOX STEPS INTERLEAVE SWIZZLE PROMOTION FILL."""
        kind, rank, address, *numbers = map(int, words)
        cuts = np.cumsum([rank, rank - 1, rank, rank])
        sizes, strides, box, steps, (interleave, swizzle, _, fill) = (
            tuple(each.tolist()) for each in np.split(np.array(numbers, np.uint64), cuts)
        )
        if interleave or kind >= len(_TYPES) or swizzle >= len(_SWIZZLES):
            raise TcemuError(f"tensor map: the machine has no interleaved layouts, and elements of {', '.join(_TYPES)}")
        filled: Fill = "nan" if fill else "zeros"
        made = TensorMap(address, _TYPES[kind], sizes, strides, box, _SWIZZLES[swizzle], filled, steps)
        return b"0\n" + words_of(made).tobytes()

    def refused(self, words: list[str], questions: BinaryIO) -> bytes:
        """Refused WHAT: the runtime does not do it."""
        raise TcemuError(f"tcemu's CUDA runtime does not do {' '.join(words)}; launch the kernels from Python instead")

    VERBS: ClassVar[dict[str, Callable[[_Device, list[str], BinaryIO], bytes]]] = {
        each.__name__: each
        for each in (
            gap,
            allocated,
            freed,
            failed,
            dereferenced,
            parameters,
            attributes,
            launch,
            write,
            read,
            place,
            tensor_map,
            refused,
        )
    }
