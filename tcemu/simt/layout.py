"""Where the variables of a kernel lie: parameters, shared memory, and those of the module's variables that it uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tcemu.assembly import Arguments, Function, Masked, Memory, Module, Operand, Symbol, Variable, Vector
from tcemu.simt.hidden import HEAP, hidden

#: Dynamic shared memory starts at a multiple of this, as on GPUs.
DYNAMIC = 16
#: Pointers to functions are these numbers and up: no space has such addresses.
FUNCTIONS = 1 << 48


@dataclass(frozen=True)
class Layout:
    """The variables of a kernel and of the functions that it may call."""

    kernel: Function
    #: the functions that the kernel may call, by name, with the kernel itself
    functions: Mapping[str, Function]
    #: the first byte of each parameter, and the bytes of all
    parameters: Mapping[str, int]
    parameter_bytes: int
    #: the variables in global memory, .const among them, that some function names
    variables: tuple[Variable, ...]
    #: the address in shared memory of each shared variable, and the bytes of all but the dynamic ones
    shared: Mapping[str, int]
    shared_variables: tuple[Variable, ...]
    static_shared: int
    #: numbers that stand for functions whose address is taken
    pointers: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def clustered(self) -> bool:
        """Whether it uses addresses of shared memory in a cluster, so that it may look for the rank in its own ones."""
        opcodes = (each.opcode for function in self.functions.values() for each in function.body)
        return any("shared::cluster" in opcode for opcode in opcodes)

    @property
    def heap(self) -> bool:
        """Whether it uses malloc."""
        return HEAP in self.variables

    @classmethod
    def of(cls, module: Module, kernel: Function) -> Layout:
        """The layout of a kernel."""
        functions = {each.name: each for each in _reachable(module, kernel)}
        parameters, size = packed(kernel.parameters)
        own = [each for function in functions.values() for each in function.variables.values()]
        named = _named(functions.values(), module)
        visible = {each.name: each for each in [*module.variables.values(), *own] if each.name in named}
        visible |= {each.name: each for each in hidden(functions.values())}
        in_shared = tuple(each for each in visible.values() if each.space == "shared")
        shared, static = _shared(in_shared)
        variables = tuple(each for each in visible.values() if each.space in ("global", "const"))
        # the same in all kernels of the module: a table in memory outlives a launch
        pointers = {name: FUNCTIONS + 8 * number for number, name in enumerate(module.functions) if name in functions}
        return cls(kernel, functions, parameters, -(-size // 8) * 8, variables, shared, in_shared, static, pointers)


def packed(variables: Iterable[Variable], start: int = 0) -> tuple[dict[str, int], int]:
    """Variables one after the other, each aligned: where each starts, and where the last one ends."""
    offsets, at = {}, start
    for each in variables:
        at = -(-at // each.align) * each.align
        offsets[each.name] = at
        at += each.size
    return offsets, at


def _shared(variables: Iterable[Variable]) -> tuple[dict[str, int], int]:
    """Addresses of shared variables, and the bytes of the static ones; all dynamic ones start behind these."""
    several = list(variables)
    dynamic = [each for each in several if not each.size or each.extern]
    offsets, size = packed(each for each in several if each not in dynamic)
    if dynamic:
        align = max([DYNAMIC, *(each.align for each in dynamic)])
        size = -(-size // align) * align
    return offsets | {each.name: size for each in dynamic}, size


def symbols(operands: Iterable[object]) -> Iterator[str]:
    """The names of variables and functions in operands or initial values."""
    for each in operands:
        if isinstance(each, Symbol):
            yield each.name
        elif isinstance(each, Masked):
            yield each.symbol.name
        elif isinstance(each, Memory):
            yield from symbols([each.base, *each.coordinates])
        elif isinstance(each, Vector | Arguments):
            yield from symbols(each.items)
        elif isinstance(each, tuple):
            yield from symbols(each)


def _operands(function: Function) -> Iterator[Operand]:
    for instruction in function.body:
        yield from instruction.operands


def _reachable(module: Module, kernel: Function) -> Iterator[Function]:
    """The kernel and every function that it, or one of these, names: also in a table, which is a variable."""
    seen, left = {kernel.name}, [kernel]
    while left:
        function = left.pop()
        yield function
        tables = [name for names in function.call_targets.values() for name in names]
        for name in dict.fromkeys([*_named([function], module), *tables]):
            callee = module.functions.get(module.aliases.get(name, name))
            if callee is not None and callee.defined and callee.name not in seen:
                seen.add(callee.name)
                left.append(callee)


def _named(functions: Iterable[Function], module: Module) -> set[str]:
    """The names of all variables that functions name, and of those that the initial values of these name."""
    names: set[str] = set()
    left = [name for function in functions for name in symbols(_operands(function))]
    while left:
        name = left.pop()
        if name not in names:
            names.add(name)
            variable = module.variables.get(name)
            if variable is not None:
                left += symbols([variable.initial])
    return names
