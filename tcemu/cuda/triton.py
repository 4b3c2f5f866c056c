"""Triton's kernels on the emulator: tcemu.cuda.triton.run(kernel, grid, *args, BLOCK=128).

Triton compiles them to PTX without a GPU; a kernel's lines are those of its Python source. It needs the package
`triton`, which tcemu does not install.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from tcemu.errors import MissingPackage, OperandError, briefly, is_whole, listing
from tcemu.extras import install
from tcemu.instructions.targets import target_named
from tcemu.machine.launch import Launch
from tcemu.ptx import Module
from tcemu.ptx.arguments import as_array

__all__ = ["Compiled", "compiled", "run"]

#: Triton's names of element types, by numpy's.
_TYPES = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
}  # fmt: skip
#: Options of Triton's compiler; the others are those of tcemu.launch.
_OPTIONS = {
    "num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "default_dot_input_precision",
}  # fmt: skip
#: Triton specialises on numbers that are multiples of this, and on pointers: arrays start at multiples of 256.
_DIVISIBLE = 16
EMPTY: Mapping[str, Any] = MappingProxyType({})
_modules: dict[tuple[str, str], Module] = {}


@dataclass(frozen=True)
class Compiled:
    """A kernel that Triton has compiled: its module, and what its launch needs."""

    module: Module
    name: str
    num_warps: int
    num_ctas: int
    #: bytes of dynamic shared memory, and of the scratch memory of each program
    shared: int
    scratch: int
    #: the arguments that are not constants
    given: tuple[Any, ...]
    #: what the function's parameters are, for a grid that depends on them
    bound: Mapping[str, Any]

    def launch(self, grid: Any, **options: Any) -> Launch:
        """Run it: programs instead of blocks."""
        sizes = grid(self.bound) if callable(grid) else grid
        sizes = (sizes,) if is_whole(sizes) else tuple(sizes)
        kernel = self.module[self.name]
        programs = math.prod(sizes) * self.num_ctas
        own = [np.zeros(self.scratch * programs, np.uint8) if self.scratch else None, None]
        given = (*self.given, *own[: len(kernel.parameters) - len(self.given)])
        if self.num_ctas > 1:
            sizes, options = (sizes[0] * self.num_ctas, *sizes[1:]), {"cluster": self.num_ctas} | options
        result: Launch = kernel(sizes, 32 * self.num_warps, *given, shared=self.shared, **options)
        return result


def run(
    kernel: Any, grid: int | tuple[int, ...] | Callable[[Mapping[str, Any]], Any], *args: Any, **options: Any
) -> Launch:
    """Run a Triton kernel: ``kernel[grid](*args, **options)``, on the emulator.

    Numpy arrays stand for tensors, and the kernel works on them in place; PyTorch's tensors in the processor's memory
    are accepted, too. The options are the kernel's own parameters (BLOCK=128), Triton's (num_warps, num_stages,
    num_ctas), `target`, by default "sm_90a", and those of tcemu.launch: sanitizer=, seed=, observers=. Of an autotuned
    kernel, the first configuration runs.

        @triton.jit
        def add(x, y, out, n, BLOCK: tl.constexpr):
            ...

        tcemu.cuda.triton.run(add, (triton.cdiv(n, 1024),), x, y, out, n, BLOCK=1024)

    Raises MissingPackage without Triton, and what a launch raises.

    >>> tcemu.cuda.triton.run(add, 4, x, y, out, x.size, BLOCK=256)  # doctest: +SKIP
    <launch of add on sm_90a: 4 blocks of (128, 1, 1), 96 instructions, policy late>
    """
    made = {name: options.pop(name) for name in list(options) if name in _OPTIONS}
    target = str(target_named(options.pop("target", "sm_90a")))
    function, config = _plain(kernel)
    own = {name: options.pop(name) for name in list(options) if name in function.arg_names}
    made = config.pop("options", {}) | made
    return compiled(function, *args, target=target, options=made, **config | own).launch(grid, **options)


def compiled(
    function: Any, *args: Any, target: str = "sm_90a", options: Mapping[str, Any] = EMPTY, **own: Any
) -> Compiled:
    """Compile a function of Triton for its arguments, as Triton does when it launches.

    >>> tcemu.cuda.triton.compiled(add, x, y, out, 1000, BLOCK=256).module.text  # doctest: +SKIP
    """
    try:
        from triton import compile as compile_source
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError as error:
        raise MissingPackage(f"Triton's kernels need the package triton ({error}); run: {install('triton')}") from None
    bound = _bound(function, args, own)
    signature, constants, attributes, given = _specialised(function, bound)
    number = int(str(target_named(target)).removeprefix("sm_").rstrip("af"))
    source = ASTSource(function, signature, constants, attributes)
    made = compile_source(source, target=GPUTarget("cuda", number, 32), options=dict(options))
    text, metadata = made.asm["ptx"], made.metadata
    if (text, target) not in _modules:
        _modules[text, target] = Module(text, f"{metadata.name}.ptx", target)
    module = _modules[text, target]
    scratch = getattr(metadata, "global_scratch_size", 0) or 0
    return Compiled(
        module, metadata.name, metadata.num_warps, metadata.num_ctas, metadata.shared, scratch, given, bound
    )


def _plain(kernel: Any) -> tuple[Any, dict[str, Any]]:
    """The function inside an autotuner or heuristics, and the first configuration's parameters and options."""
    settings: dict[str, Any] = {}
    while not hasattr(kernel, "arg_names") or hasattr(kernel, "configs"):
        if not hasattr(kernel, "fn"):
            raise OperandError(f"run takes a function with @triton.jit; got {briefly(kernel)}")
        for config in getattr(kernel, "configs", [])[:1]:
            options = {name: getattr(config, name, None) for name in ("num_warps", "num_stages", "num_ctas")}
            settings |= {
                **config.kwargs,
                "options": {name: value for name, value in options.items() if value is not None},
            }
        kernel = kernel.fn
    return kernel, settings


def _bound(function: Any, args: tuple[Any, ...], own: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by the names of the parameters, in their order."""
    try:
        bound = inspect.signature(function.fn).bind(*args, **own)
    except TypeError as error:
        names = listing(function.arg_names, "and")
        raise OperandError(f"{function.fn.__name__}: {error}; its parameters are {names}") from None
    bound.apply_defaults()
    return {name: as_array(value) for name, value in bound.arguments.items()}


def _specialised(
    function: Any, bound: Mapping[str, Any]
) -> tuple[dict[str, str], dict[Any, Any], dict[Any, Any], tuple[Any, ...]]:
    """What Triton compiles for: types, constants and divisibility, as its own launcher finds them; and the rest."""
    signature: dict[str, str] = {}
    constants: dict[Any, Any] = {}
    attributes: dict[Any, Any] = {}
    given = []
    fixed = {each.name for each in function.params if each.is_constexpr}
    for index, (name, value) in enumerate(bound.items()):
        if name in fixed or value is None or (is_whole(value) and value == 1):
            signature[name], constants[(index,)] = "constexpr", value
            continue
        signature[name] = _type(function, name, value)
        given.append(value)
        if isinstance(value, np.ndarray) or (is_whole(value) and value % _DIVISIBLE == 0):
            attributes[(index,)] = [["tt.divisibility", _DIVISIBLE]]
    return signature, constants, attributes, tuple(given)


def _type(function: Any, name: str, value: Any) -> str:
    """Triton's name of an argument's type."""
    if isinstance(value, np.ndarray) and value.dtype.name in _TYPES:
        return f"*{_TYPES[value.dtype.name]}"
    if isinstance(value, np.generic) and value.dtype.name in _TYPES:
        return _TYPES[value.dtype.name]
    if isinstance(value, bool):
        return "i1"
    if is_whole(value):
        return "i32" if -(1 << 31) <= value < 1 << 31 else "i64" if value < 1 << 63 else "u64"
    if isinstance(value, float):
        return "fp32"
    raise OperandError(f"{function.fn.__name__}: {name} must be an array or a number; got {briefly(value)}")
