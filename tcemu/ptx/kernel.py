"""A kernel by name, which checks its arguments and launches: kernel[grid, block](...)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tcemu import simt
from tcemu.assembly import Function
from tcemu.errors import LaunchError, OperandError, briefly
from tcemu.machine.launch import Launch
from tcemu.ptx.arguments import checked
from tcemu.ptx.signature import Parameter, described, parameters

if TYPE_CHECKING:
    from tcemu.ptx.module import Module

#: How many things stand between <<< and >>> where the last is the stream, of which 0 is the default.
_WITH_STREAM = 4
#: The options of a launch, which are apart from the kernel's arguments.
_OPTIONS = "shared=, cluster=, sanitizer=, seed=, observers= and the others of tcemu.launch"


class Kernel:
    """A kernel, launched as in CUDA C++ with the grid and the block in brackets, or as a function.

        scale[grid, block](x, 2.0, n)                 # scale<<<grid, block>>>(x, 2.0f, n)
        scale[grid, block, 1024](x, 2.0, n)           # with 1,024 bytes of dynamic shared memory
        scale(grid, block, x, 2.0, n, shared=1024)    # the same

    `grid` and `block` are numbers or tuples of up to three. Numpy arrays are pointers: the kernel works on them in
    place. Numbers are converted to the parameter's type. A struct, by value or behind a pointer, is a
    tcemu.cuda.struct, an array of pointers a list of arrays, a CUtensorMap a tcemu.tensor_map, a null pointer None.
    All options of tcemu.launch are accepted: cluster=, sanitizer=, seed=, policy=, observers=. Returns the launch's
    result. Raises OperandError for an argument that does not fit its parameter, before anything runs, and what
    tcemu.launch raises.

    >>> text = '''
    ... .version 8.0
    ... .target sm_80
    ... .address_size 64
    ... .visible .entry fill(.param .u64 x)
    ... {
    ...     .reg .b32 %r<2>;  .reg .b64 %rd<4>;
    ...     ld.param.u64 %rd1, [x];
    ...     mov.u32 %r1, %tid.x;
    ...     mul.wide.u32 %rd2, %r1, 4;
    ...     add.s64 %rd3, %rd1, %rd2;
    ...     st.global.u32 [%rd3], %r1;
    ...     ret;
    ... }'''
    >>> fill, x = tcemu.ptx.load(text)["fill"], np.zeros(4, np.int32)
    >>> fill[1, 4](x).target, x
    ('sm_80', array([0, 1, 2, 3], dtype=int32))
    """

    def __init__(self, module: Module, function: Function, source: str = "") -> None:
        self.module, self.function, self._source = module, function, source
        self.__doc__ = f"{self}\n\n{Kernel.__doc__}"

    @property
    def name(self) -> str:
        """Its name in C++: "gemm<64>"."""
        return self.function.short

    @property
    def __name__(self) -> str:
        return self.name

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its parameters: types, names, sizes."""
        return parameters(self.function, self._source, narrow=self.module.narrow)

    @cached_property
    def executable(self) -> simt.Kernel:
        """What runs, which is made when it is first needed. Raises Unsupported for what tcemu does not execute."""
        names = [f"argument {each.name or each.index}" for each in self.parameters]
        module, name = self.module, self.function.name
        shared = module.storage
        return simt.Kernel(module.parsed, name, module.target, variables=shared, names=names, fmad=module.fmad)

    @property
    def fused(self) -> tuple[simt.Fused, ...]:
        """Products and sums that PTX lets the assembler fuse into one operation: pairs of instructions of the text."""
        return self.executable.fused

    def __call__(self, grid: Any = None, block: Any = None, *args: Any, **options: Any) -> Launch:
        """Launch it: the grid, the block, the kernel's arguments, options of tcemu.launch."""
        if any(each is None or isinstance(each, np.ndarray) for each in (grid, block)):
            raise LaunchError(
                f"{self.name} needs a grid and a block before its arguments: {self.name}[grid, block](...), as in "
                f"{self.name}<<<grid, block>>>(...)"
            )
        if len(args) + 2 == len(self.parameters):
            raise OperandError(
                f"{self} takes {len(self.parameters)} arguments; got {len(args)} behind the grid, {briefly(grid)}, and "
                f"the block, {briefly(block)}, which come before them: {self.name}[grid, block](...)"
            )
        return self._launch(grid, block, args, options)

    def _launch(self, grid: Any, block: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Launch:
        names = [each.name for each in self.parameters if each.name in options]
        if names and len(args) < len(self.parameters):
            raise LaunchError(f"{self.name} takes its arguments in their order, without names: not {names[0]}=")
        values = checked(self.name, self.parameters, args)
        return self.executable.launch(grid, block, *values, **options)

    def prepared(self, args: Sequence[Any], shared: Any, cluster: Any) -> simt.Prepared:
        """What tcemu.Stream.launch runs.

        >>> text = ".version 8.0 .target sm_80 .address_size 64 .visible .entry k() { ret; }"
        >>> tcemu.ptx.load(text)["k"].prepared((), 128, None).cluster is None
        True
        """
        return self.executable.prepared(checked(self.name, self.parameters, args), shared, cluster)

    def __getitem__(self, configuration: Any) -> Callable[..., Launch]:
        """What stands between <<< and >>>: the grid, the block and, if any, the bytes of dynamic shared memory."""
        several = configuration if isinstance(configuration, tuple) else (configuration,)
        if len(several) == _WITH_STREAM and several[-1] in (0, None):
            several = several[:-1]
        if len(several) not in (2, 3):
            after = "; a tcemu.Stream launches a kernel itself: stream.launch(kernel, grid, block, (argument, ...))"
            raise LaunchError(
                f"{self.name}[grid, block](...) or {self.name}[grid, block, shared](...), each of grid and block a "
                f"number or a tuple of up to three; got {self.name}[{', '.join(map(briefly, several))}]. {_OPTIONS} go "
                f"into the call{after if len(several) == _WITH_STREAM else ''}"
            )
        grid, block, *shared = (each.tolist() if isinstance(each, np.ndarray) else each for each in several)
        return _Configured(self, grid, block, {"shared": shared[0]} if shared else {})

    def __str__(self) -> str:
        return described(self.name, self.parameters)

    def __repr__(self) -> str:
        return f"<kernel {self} for {self.module.target}>"


@dataclass(frozen=True)
class _Configured:
    """A kernel with its grid and block, which the arguments launch."""

    kernel: Kernel
    grid: Any
    block: Any
    options: Mapping[str, Any]

    def __call__(self, *args: Any, **options: Any) -> Launch:
        return self.kernel._launch(self.grid, self.block, args, {**self.options, **options})  # noqa: SLF001 - of this file

    def __repr__(self) -> str:
        name = self.kernel.name
        return f"<{name}[{self.grid}, {self.block}], not launched yet: its arguments launch it, as in {self.kernel}>"
