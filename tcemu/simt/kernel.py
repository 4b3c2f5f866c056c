"""Kernels of PTX text, launched like those in Python: every observer, seed and policy of tcemu.launch serves them."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu import launcher
from tcemu.assembly import Function, Module
from tcemu.assembly.names import demangle
from tcemu.errors import (
    Interrupted,
    LaunchError,
    TargetError,
    TcemuError,
    UnknownName,
    counted,
    did_you_mean,
    is_whole,
    listing,
)
from tcemu.instructions.targets import target_named
from tcemu.machine.allocation import Shared
from tcemu.machine.global_memory import GlobalMemory
from tcemu.machine.launch import Launch
from tcemu.machine.warp import Warp
from tcemu.simt import arguments, engine, printed
from tcemu.simt.contraction import Fused, contract
from tcemu.simt.frames import aligned
from tcemu.simt.hidden import HEAP
from tcemu.simt.program import Code
from tcemu.simt.run import Run
from tcemu.simt.together import Together
from tcemu.simt.variables import Variables

#: The target of a kernel whose own is none that tcemu knows.
_TARGET = "sm_90a"
#: The bytes of shared memory that a kernel may declare with their number (ptxas: "uses too much shared data").
_STATIC_SHARED = 48 << 10


class Prepared(NamedTuple):
    """A launch: the function of a warp, the arrays that it gets, the shared memory and the cluster.

    >>> from tcemu.simt.kernel import Prepared
    >>> Prepared(lambda warp: None, (), 128, None).shared
    128
    """

    kernel: Callable[..., None]
    args: Sequence[Any]
    shared: Any
    cluster: Any


class Kernel:
    """A kernel of a module: call it with the grid, the block and its arguments.

    Arrays of numpy live in global memory while it runs, and then hold what it wrote; numbers are converted to the
    parameter's type. `shared` is dynamic shared memory, in bytes, beside what the kernel declares itself.

    >>> from tcemu import assembly, simt
    >>> text = '''
    ... .version 8.0
    ... .target sm_80
    ... .address_size 64
    ... .visible .entry triple(.param .u64 x)
    ... {
    ...     .reg .b32 %r<4>;  .reg .b64 %rd<4>;
    ...     ld.param.u64 %rd1, [x];
    ...     mov.u32 %r1, %tid.x;
    ...     mul.wide.u32 %rd2, %r1, 4;
    ...     add.s64 %rd3, %rd1, %rd2;
    ...     ld.global.u32 %r2, [%rd3];
    ...     mul.lo.s32 %r3, %r2, 3;
    ...     st.global.u32 [%rd3], %r3;
    ...     ret;
    ... }'''
    >>> triple = simt.Kernel(assembly.parse(text), "triple")
    >>> x = np.arange(32, dtype=np.int32)
    >>> result = triple.launch(1, 32, x)
    >>> x[:4], result.target
    (array([0, 3, 6, 9], dtype=int32), 'sm_80')

    Raises Unsupported if it contains something that tcemu does not execute.
    """

    def __init__(
        self,
        module: Module,
        name: str,
        target: str | None = None,
        *,
        variables: Variables | None = None,
        names: Sequence[str] | None = None,
        fmad: bool = True,
        memory: Sequence[tuple[str, npt.NDArray[Any]]] = (),
    ) -> None:
        """`variables` are those of the module, which its kernels share; `names` are those of the arguments.

        `memory` is what lies in global memory before the arrays that arguments name, whoever points to it.

        `fmad` is whether products and sums are fused where the text leaves it open, as ptxas does it; see `fused`.
        """
        self.fmad = fmad
        self.module, self.function = module, _named(module, name)
        self.target = target or target_of(module)
        self.variables, self.memory = variables or Variables(module), memory
        self.names = tuple(names or (f"argument {number}" for number in range(len(self.function.parameters))))
        self._codes: dict[bool, Code] = {}
        self.layout = self._code(preempts=False).layout

    def __repr__(self) -> str:
        return f"<kernel {self.name}: {counted(len(self.parameters), 'argument')}>"

    @property
    def name(self) -> str:
        """Its name in C++: "gemm<64>"."""
        return self.function.short

    @property
    def parameters(self) -> Any:
        """Its parameters, as the PTX text declares them."""
        return self.function.parameters

    @property
    def fused(self) -> tuple[Fused, ...]:
        """The products and sums that PTX lets the assembler fuse into one operation, and that ptxas does fuse.

        Their bits are not in the text: `Kernel(..., fmad=False)` rounds twice.
        """
        return contract(self.function)[1]

    @property
    def static_shared(self) -> int:
        """The bytes of shared memory that it declares itself."""
        return self.layout.static_shared

    def _code(self, *, preempts: bool) -> Code:
        """The code that runs, where the schedule may switch before each access or not."""
        memory = engine.native() and not preempts
        code = self._codes.get(memory)
        if code is None:
            code = self._codes[memory] = Code(self.module, self.function, self.target, memory, self.fmad)
        return code

    def __call__(self, grid: Any, block: Any, *args: Any, **options: Any) -> Launch:
        """The same as `launch`."""
        return self.launch(grid, block, *args, **options)

    def launch(
        self, grid: Any, block: Any, *args: Any, shared: int = 0, target: str | None = None, **options: Any
    ) -> Launch:
        """Run it for each thread of a grid; the options are those of tcemu.launch."""
        made = self.prepared(args, shared, options.pop("cluster", None), alone=True)
        options |= {"shared": made.shared, "cluster": made.cluster, "target": target or self.target}
        try:
            result = launcher.launch(made.kernel, grid, block, made.args, **options)
        except (TcemuError, Interrupted) as error:
            if error.launch is not None:
                made.kernel.ran(error.launch)  # type: ignore[attr-defined]
            raise
        made.kernel.ran(result)  # type: ignore[attr-defined]
        return result

    def prepared(self, args: Sequence[Any], shared: Any, cluster: Any, *, alone: bool = False) -> Prepared:
        """What tcemu.launch or, unless `alone`, tcemu.Stream.launch runs. Raises LaunchError if that cannot be.

        >>> text = ".version 8.0 .target sm_80 .address_size 64 .visible .entry k() { ret; }"
        >>> tcemu.ptx.load(text)["k"].executable.prepared((), 128, None).cluster is None
        True
        """
        bound = arguments.bind(self.function, args, self.names)
        variables = self.layout.variables
        named = (*self.memory, *bound.buffers)
        buffers = [*(array for _, array in named), *(self.variables.array(each) for each in variables)]
        if bound.behind or Variables.relocated(variables):
            if not alone:
                raise LaunchError(
                    f"{self.name} gets a pointer to a tensor map or a struct, or has a variable with the address of "
                    "another: in a tcemu.Stream, where launches share the memory, addresses are not known in advance. "
                    "Pass tensor maps by value (const __grid_constant__ CUtensorMap), or launch the kernel by itself"
                )
            self._fill(args, bound, buffers)
        required = self.function.directives.get("reqnctapercluster")
        if cluster is None and required:
            cluster = tuple(int(each) for each in required)
        return Prepared(self._body(args, bound), buffers, self._shared(shared), cluster)

    def _shared(self, dynamic: Any) -> Any:
        """The shared memory of a block, with the names of the variables in it."""
        layout = self.layout
        if not is_whole(dynamic) or dynamic < 0:
            return dynamic
        if self.static_shared > _STATIC_SHARED:
            raise LaunchError(
                f"{self.name} declares {self.static_shared} bytes of shared memory; ptxas accepts {_STATIC_SHARED}: "
                "more must be dynamic, extern __shared__, and shared= of the launch gives its bytes"
            )
        sizes = {each.name: each.size or int(dynamic) for each in layout.shared_variables}
        called = _in_cpp(layout.shared)
        arrays = {called[name]: (at, (sizes[name],), np.uint8) for name, at in layout.shared.items() if sizes[name]}
        return Shared.placed(layout.static_shared + int(dynamic), arrays)

    @property
    def most_threads(self) -> tuple[int, ...]:
        """What __launch_bounds__ says of a block: one to three numbers, whose product is the most threads."""
        return tuple(int(each) for each in self.function.directives.get("maxntid", (1024,)))

    def check_block(self, block: Sequence[Any]) -> None:
        r"""Raise LaunchError for a block with other threads than __launch_bounds__ and its like allow.

        >>> text = ".version 8.0 .target sm_80 .address_size 64 .visible \n.entry k()\n.maxntid 64\n{ ret; }"
        >>> kernel = tcemu.ptx.load(text)["k"].executable
        >>> kernel.check_block((64, 1, 1))
        >>> kernel.most_threads
        (64,)
        """
        shape, directives = tuple(int(each) for each in block), self.function.directives
        for name, fits, allowed in (("maxntid", operator.le, "at most "), ("reqntid", operator.eq, "")):
            bound = [int(each) for each in directives.get(name, ())]
            if bound and not fits(prod(shape), prod(bound)):
                raise LaunchError(
                    f"{self.name} is compiled for blocks of {allowed}{counted(prod(bound), 'thread')} "
                    f"(__launch_bounds__, .{name}); a block of {shape} has {prod(shape)}, and a GPU does not launch it"
                )

    def _fill(self, args: Sequence[Any], bound: arguments.Bound, buffers: Sequence[Any]) -> None:
        """Write the addresses that the launch will give to arrays into tensor maps and variables."""
        pointers = GlobalMemory([("", each) for each in buffers]).pointers
        variables = self.layout.variables
        place = len(self.memory)
        named = {each.name: int(at) for each, at in zip(variables, pointers[place + len(bound.buffers) :], strict=True)}
        self.variables.relocate(variables, named | dict(self.layout.pointers))
        for number, argument in enumerate(arguments.behind_pointers(self.function, args)):
            if number in bound.behind:
                content = bound.behind[number]
                content[:] = np.frombuffer(argument.packed.pack(iter(pointers[place:])), np.uint8)
                content.flags.writeable = False  # what a kernel wrote there would be lost
            place += _arrays(argument)

    def _body(self, args: Sequence[Any], bound: arguments.Bound) -> Callable[..., None]:
        """The function that tcemu.launch calls for each warp; `ran` is to be called with the result."""
        layout, says, first = self.layout, printed.listener(), len(self.memory)
        count = first + len(bound.buffers)
        packed: dict[tuple[int, ...], tuple[npt.NDArray[np.uint8], dict[str, int]]] = {}
        runs: list[Together] = []

        def kernel(warp: Warp, *pointers: Any) -> None:
            addresses = tuple(int(each) for each in pointers)
            if addresses not in packed:
                given, at = pointers[first:count], dict(layout.parameters)
                raw = arguments.pack(self.function, args, self.names, given, at, layout.parameter_bytes)
                parameters = aligned(len(raw))
                parameters[: len(raw)] = np.frombuffer(raw, np.uint8)
                named = dict(zip((each.name for each in layout.variables), addresses[count:], strict=True))
                packed[addresses] = parameters, named
            grid = warp.core.grid
            if not runs or runs[-1].grid is not grid:
                self.check_block(warp.ntid)
                code = self._code(preempts=grid.scheduler.strategy.preempts)
                runs.append(Together(grid, says, code.kernel))
            Run(warp, *packed[addresses], runs[-1]).go()

        kernel.__name__ = kernel.__qualname__ = self.name
        called = _in_cpp(each.name for each in layout.variables)
        names = [name for name, _ in (*self.memory, *bound.buffers)]
        names += [f"variable {called[each.name]}" for each in layout.variables]
        kernel.argument_names = dict(enumerate(names))  # type: ignore[attr-defined]
        kernel.scratch = frozenset(at for at, name in enumerate(names) if name == f"variable {HEAP.name}")  # type: ignore[attr-defined]
        kernel.of = self  # type: ignore[attr-defined] # each launch has a function of its own
        kernel.ran = partial(_count, runs)  # type: ignore[attr-defined]
        return kernel


def _count(runs: Sequence[Together], result: Launch) -> None:
    """Add the ordinary instructions of the last run to those of the machine."""
    if runs:
        result.counts += runs[-1].counts


def _in_cpp(names: Iterable[str]) -> dict[str, str]:
    """Variables by what CUDA C++ calls them: without function and namespace, where that says which one it is."""
    whole = {name: demangle(name).short for name in names}
    last = {name: written.rpartition("::")[2] for name, written in whole.items()}
    counts = Counter(last.values())
    return {name: last[name] if counts[last[name]] == 1 else whole[name] for name in whole}


def _arrays(argument: Any) -> int:
    """How many arrays an argument passes."""
    if isinstance(argument, np.ndarray):
        return 1
    packed = argument.packed if isinstance(argument, arguments.Behind) else argument
    return len(packed.buffers) if isinstance(packed, arguments.Packed) else 0


def _named(module: Module, name: str) -> Function:
    """A kernel by its name in the text, its name in C++, or that without types."""
    kernels = module.kernels
    for called in ("name", "demangled", "short"):
        named = [each for each in kernels if getattr(each, called) == name]
        if len(named) == 1:
            return named[0]
        if named:
            listed = listing([each.demangled for each in named])
            raise LaunchError(f"{name} is the name of {len(named)} kernels: {listed}")
    names = [each.short for each in kernels]
    raise UnknownName(f"no kernel {name} in {module.name}; it has {listing(names)}.{did_you_mean(name, names)}")


def target_of(module: Module) -> str:
    """The target that the text was made for, if tcemu knows it."""
    try:
        return str(target_named(module.target))
    except TargetError:
        return _TARGET
