"""tcemu.live.cuda: compile CUDA C++ with NVRTC and run one of its kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from tcemu.errors import CompilationError, OperandError, is_whole
from tcemu.live.process import client
from tcemu.live.process.device import device
from tcemu.live.process.job import TIME_LIMIT, Argument, Job
from tcemu.live.process.troubles import CRT_OF_TWELVE, INSTALL
from tcemu.machine.mapped import Mapped

Size = int | tuple[int, ...]


def cuda(
    source: str,
    kernel: str,
    grid: Size,
    block: Size,
    *arguments: Any,
    shared: int = 0,
    seconds: float = TIME_LIMIT,
    options: Iterable[str] = (),
    launches: int = 1,
) -> None:
    """Compile CUDA C++ and run `kernel`, a __global__ function, with `grid` blocks of `block` threads.

    `arguments` are the kernel's own, in order. A numpy array becomes a pointer to a copy on the GPU, which is copied
    back into the array afterwards; a read-only array is not copied back. `tensor_map` makes an argument for TMA.
    Numbers must be numpy scalars, so that they have a C type: np.int32(n) for int, np.float32(x) for float. `shared` is
    the number of bytes of dynamic shared memory; `options` are -I and -D of the compiler. With `launches`, the kernel
    runs so often, one launch after the other, on the same memory. What the kernel prints goes to standard output.

        x = np.arange(64, dtype=np.float32)
        tcemu.live.cuda("__global__ void twice(float* x) { x[threadIdx.x] *= 2; }", "twice", 1, 64, x)

    Raises CompilationError with the source lines, OperandError for arguments, GpuUnavailable, and GpuError for a kernel
    that stops with an error or does not end within `seconds`; the next call works again.

    >>> source = "__global__ void twice(float *x) { x[threadIdx.x] *= 2; }"
    >>> x = np.arange(4, dtype=np.float32)
    >>> tcemu.live.cuda(source, "twice", 1, 4, x)  # on a GPU; x holds what the kernel wrote  # doctest: +SKIP
    >>> x  # doctest: +SKIP
    array([0., 2., 4., 6.], dtype=float32)
    """
    chip = device()
    shape = {"grid": _size("grid", grid), "block": _size("block", block)}
    checked = tuple(_argument(index, value) for index, value in enumerate(arguments))
    if not isinstance(source, str) or not isinstance(kernel, str):
        raise OperandError("the source and the kernel's name must be text")
    if not isinstance(shared, int) or not 0 <= shared <= chip.shared:
        raise OperandError(f"shared= must be 0 to {chip.shared} bytes on {chip.name}; got {shared!r}")
    if not isinstance(seconds, int | float) or not 0 < seconds <= 3600:
        raise OperandError(f"seconds= must be more than 0 and at most 3600; got {seconds!r}")
    if not is_whole(launches) or launches < 1:
        raise OperandError(f"launches= must be at least 1; got {launches!r}")
    shapes = shape["grid"], shape["block"]
    job = Job("c++", source, kernel, *shapes, checked, shared, _options(options), float(seconds), int(launches))
    try:
        answer = client.ask(job)
    except CompilationError as error:
        raise CompilationError(explained(source, kernel, str(error))) from None
    for argument, value in zip(checked, arguments, strict=True):
        if argument.direction == "both":
            array = value.array if isinstance(value, Mapped) else value
            array[...] = answer.arrays[argument.name]


def _size(what: str, value: Any) -> tuple[int, ...]:
    sizes = value if isinstance(value, tuple) else (value,)
    good = all(is_whole(size) and size >= 1 for size in sizes)
    if not good or not 1 <= len(sizes) <= 3:
        raise OperandError(f"{what} must be a positive int or a tuple of up to three; got {value!r}")
    return tuple(int(size) for size in sizes)


def _argument(index: int, value: Any) -> Argument:
    name = f"argument {index}"
    if isinstance(value, Mapped):
        return replace(_argument(index, value.array), tensor_map=value.tensor_map)
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject or not value.dtype.isnative:
            raise OperandError(f"{name}: an array of {value.dtype} has no C type")
        held = np.ascontiguousarray(value).reshape(value.shape)
        return Argument(name, "both" if value.flags.writeable else "in", held)
    if isinstance(value, np.generic) and value.dtype.kind in "iufb":
        return Argument(name, "scalar", value)
    if isinstance(value, bool | int | float):
        floats, integers = "np.float32(...) for float, np.float64(...) for double", "np.int32(...) for int, and so on"
        types = floats if isinstance(value, float) else integers
        raise OperandError(f"{name}: {value!r} does not say its C type; write {types}")
    raise OperandError(f"{name}: expected a numpy array or a numpy scalar; got {type(value).__name__}")


def _options(options: Iterable[str]) -> tuple[str, ...]:
    words = (options,) if isinstance(options, str) else tuple(options)
    for word in words:
        if not isinstance(word, str) or not re.match(r"-[ID].", word):
            raise OperandError(f"options must be -IFOLDER, -DNAME or -DNAME=VALUE; got {word!r}")
    return words


#: NVRTC's name for the list of requested kernels, and the form of an error: file, line, message.
_NAMES = "__nv_name_map"
_COMPLAINT = re.compile(r"^(.+)\((\d+)\): (?:catastrophic )?(error[^:]*: .*)$", re.MULTILINE)
_NO_FILE = re.compile(r'cannot open source file "([^"]+)"')
#: C headers whose names look like CUDA's.
_C = {"assert.h", "float.h", "limits.h", "math.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h"}


def explained(source: str, kernel: str, log: str) -> str:
    """The compiler's errors, each with its line of the source; the compiler's own text if it names no line."""
    complaints = _COMPLAINT.findall(log)
    mistakes = [complaint for complaint in complaints if complaint[0] != _NAMES]
    if complaints and not mistakes:
        return f"the source compiles, but has no kernel {kernel!r}; name a template with its arguments: 'f<float>'"
    if not mistakes:
        return f"the kernel {kernel!r} does not compile:\n{log.strip()}"
    lines = source.splitlines()
    parts = [_complaint(lines, file, int(line), message.strip()) for file, line, message in mistakes]
    parts += [header(name) for name in dict.fromkeys(_NO_FILE.findall(log))]
    return f"the source does not compile, {len(mistakes)} error{'s' * (len(mistakes) > 1)}:\n" + "\n".join(parts)


def _complaint(lines: list[str], file: str, line: int, message: str) -> str:
    if file != "kernel.cu":
        return f"{file}, line {line}: {message}"
    text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return f"line {line}: {message}\n    {text}"


def header(name: str) -> str:
    """Advice for a header that NVRTC did not find."""
    if name.startswith("crt/"):
        return f"<{name}> comes with the extra `gpu`; {INSTALL}; for CUDA 12, {CRT_OF_TWELVE}"
    if name in _C or not {"/", "."} & set(name):
        return (
            f"NVRTC has no standard library, so there is no <{name}>: printf and assert need no header, and CUDA has "
            "<cuda/std/cstdint> and the like"
        )
    return f"CUDA's headers come with the extra `gpu`; {INSTALL}; options=['-IFOLDER'] adds a folder of others"
