"""The variables of a module in global memory, .const among them: arrays that keep their content between launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.assembly import Immediate, Masked, Module, Symbol, Variable
from tcemu.simt.errors import Unsupported

Array = npt.NDArray[Any]


class Variables:
    r"""The arrays of bytes of a module's variables, which all kernels of the module share.

    >>> from tcemu import assembly
    >>> from tcemu.simt import Variables
    >>> head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    >>> module = assembly.parse(head + ".global .u32 table[2] = {5, 7};\n.global .u64 at = generic(table)+4;")
    >>> variables, (table, at) = Variables(module), module.variables.values()
    >>> variables.array(table).view(np.uint32)
    array([5, 7], dtype=uint32)
    >>> variables.relocated([at])
    True
    >>> variables.relocate([at], {"table": 4096})
    >>> variables.array(at).view(np.uint64)
    array([4100], dtype=uint64)
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self._arrays: dict[str, Array] = {}

    def array(self, variable: Variable) -> Array:
        """The bytes of a variable, with its initial value when it is first used."""
        array = self._arrays.get(variable.name)
        if array is None:
            array = self._arrays[variable.name] = np.zeros(max(variable.size, 1), np.uint8)
            for at, size, value in variable.elements():
                if isinstance(value, Immediate):
                    _write(array, at, size, value.value)
        return array

    def place(self, variable: Variable, array: Array) -> None:
        r"""Give a variable the memory where it lies from now on.

        >>> from tcemu import assembly
        >>> from tcemu.simt import Variables
        >>> module = assembly.parse(".version 8.0\n.target sm_80\n.address_size 64\n.global .u32 x;")
        >>> variables, x = Variables(module), module.variables["x"]
        >>> variables.place(x, np.full(4, 1, np.uint8))
        >>> variables.array(x)
        array([1, 1, 1, 1], dtype=uint8)
        """
        self._arrays[variable.name] = array

    def relocate(self, variables: Sequence[Variable], addresses: Mapping[str, int]) -> None:
        """Write the addresses of variables and functions into the initial values that name them."""
        for variable in variables:
            for at, size, value in variable.elements():
                if isinstance(value, Symbol | Masked):
                    _write(self.array(variable), at, size, _address(value, addresses))

    @staticmethod
    def relocated(variables: Sequence[Variable]) -> bool:
        """Whether some initial value names another variable, or a function."""
        return any(not isinstance(value, Immediate) for each in variables for _, _, value in each.elements())


def _address(value: Symbol | Masked, addresses: Mapping[str, int]) -> int:
    if isinstance(value, Masked):
        shift = (value.mask & -value.mask).bit_length() - 1
        return (_address(value.symbol, addresses) & value.mask) >> shift
    if value.name not in addresses:
        raise Unsupported(
            f"the initial value of a variable is the address of {value.name}, which this module does not define"
        )
    return addresses[value.name] + value.offset


def _write(array: Array, at: int, size: int, value: int) -> None:
    array[at : at + size] = np.frombuffer((value & ((1 << 8 * size) - 1)).to_bytes(size, "little"), np.uint8)
