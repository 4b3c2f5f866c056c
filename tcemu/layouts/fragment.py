"""A fragment: one operand matrix, distributed over the registers of the lanes that share it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.backend import backend_of_move
from tcemu.errors import LayoutError, OperandError, TableError, briefly, counted, span
from tcemu.formats import Container, Format
from tcemu.formats.arrays import as_array
from tcemu.layouts.layout import Layout, whole

Array = npt.NDArray[Any]


class _Table(NamedTuple):
    """Where each element of the matrix is, in C order: the register of the warp and the first bit in it."""

    source: Array
    bit: Array
    mask: np.unsignedinteger[Any]
    storage: np.dtype[Any]


@dataclass(frozen=True)
class Fragment:
    """An operand of an instruction: which matrix (`role`), in which lane and slot (`layout`) and bits (`container`).

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> a = mma.fragments["a"]
    >>> a.shape, a.lanes, a.registers, a.elements_per_register
    ((16, 16), 32, 4, 2)
    >>> a.position(14, 0, 1), a.holders(3, 5)  # who holds A[3][5]
    ((3, 5), [(14, 0, 1)])
    >>> A = np.arange(256, dtype=np.float16).reshape(16, 16)
    >>> registers = a.pack(A)
    >>> registers.shape, registers.dtype, np.array_equal(a.unpack(registers), A)
    ((32, 4), dtype('uint32'), True)
    >>> a.unpack_patterns(registers)[0, 1]  # 1.0, which is 0x3C00
    np.uint16(15360)
    >>> flat = a.check(registers).reshape(1, -1)  # one warp, 32 * 4 registers
    >>> np.array_equal(a.write(a.read(flat)), flat)
    True
    """

    role: str
    layout: Layout
    container: Container
    #: The elements' type if it is not the container's format: "b16", "codes".
    called: str = ""

    def __post_init__(self) -> None:
        if self.layout.slots % self.container.elements:
            raise TableError(
                f"{self.role}: {self.layout.slots} elements do not fill registers of {self.container.elements}"
            )

    @cached_property
    def format(self) -> Format:
        """The number format of the elements."""
        return self.container.form

    @property
    def type(self) -> str:
        """The elements' type: "f16", or "b16" for 16 bits that are only moved."""
        return self.called or self.format.name

    @cached_property
    def lanes(self) -> int:
        """Lanes that share the fragment: 32 for a warp, 128 for a warpgroup."""
        return self.layout.lanes

    @cached_property
    def registers(self) -> int:
        """Registers of each lane."""
        return self.layout.slots // self.container.elements

    @property
    def elements_per_register(self) -> int:
        """Elements in one register."""
        return self.container.elements

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, columns) of the matrix; (4, rows, columns) for the four products of m8n8k4."""
        return self.layout.shape

    @property
    def cute(self) -> str:
        """The map as CuTe writes it, a layout of (lane, element of the lane): digits in ascending order, and strides.

        A stride counts elements of the matrix in column-major order. CuTe's B is N x K, so it counts along n first.
        An instruction's batch of matrices, and scale factors, have no such line.

        >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
        >>> mma.fragments["a"].cute, mma.fragments["b"].cute
        ('((4,8),(2,2,2)):((32,1),(16,8,128))', '((4,8),(2,2)):((16,1),(8,64))')
        """
        return self.layout.cute(transposed=self.role == "b")

    def position(self, lane: int, register: int, element: int = 0) -> tuple[int, ...]:
        """The (row, column) held in `element` (0 is in the lowest bits) of `register` of `lane`. Raises LayoutError."""
        register, element = whole((register, element))
        if not (0 <= register < self.registers and 0 <= element < self.elements_per_register):
            raise LayoutError(
                f"register {register}, element {element}: {self.role} has registers "
                f"{span(0, self.registers - 1)}, each with elements {span(0, self.elements_per_register - 1)}"
            )
        return self.layout.position(lane, register * self.elements_per_register + element)

    def holders(self, *position: int) -> list[tuple[int, int, int]]:
        """Every (lane, register, element) that holds the matrix element at (row, column)."""
        return [(lane, *divmod(slot, self.elements_per_register)) for lane, slot in self.layout.holders(*position)]

    def pack(self, matrix: npt.ArrayLike) -> Array:
        """Distribute a matrix (..., rows, columns) over registers (..., lanes, registers), uint32 (uint64 for f64).

        The matrix has the format's own dtype (`fragment.format.dtype`), or holds its patterns as unsigned integers.
        Raises OperandError for any other shape or dtype: nothing is converted silently.
        """
        patterns = self.format.patterns(matrix, f"{self.role} of {self.type}")
        if patterns.shape[patterns.ndim - len(self.shape) :] != self.shape:
            raise OperandError(
                f"{self.role} must be a matrix of shape {_with_dots(self.shape)}; got {np.shape(matrix)}. "
                "Leading axes are independent warps."
            )
        flat = patterns.reshape(*patterns.shape[: patterns.ndim - len(self.shape)], prod(self.shape))
        return self.container.pack(flat[..., self.layout.gather])

    def unpack(self, registers: npt.ArrayLike) -> Array:
        """The matrix (..., rows, columns) that registers (..., lanes, registers) hold, in the format's dtype."""
        return self.format.matrix(self.unpack_patterns(self.check(registers)))

    def unpack_patterns(self, registers: Array) -> Array:
        """Like :meth:`unpack`, but returns patterns as unsigned integers and does not check the registers."""
        if not isinstance(registers, np.ndarray) or registers.shape[-2:] != (self.lanes, self.registers):
            self.check(registers)  # says what does not fit
        lead = registers.shape[:-2]
        return self.read(registers.reshape(-1, self.lanes * self.registers)).reshape(*lead, *self.shape)

    # ------------------------------------------------------------------------------------------ many warps at once

    def read(self, registers: Array, *, words: bool = False, some: Array | None = None) -> Array:
        """Patterns (warps, rows * columns) of flat registers (warps, lanes * registers).

        With `words` a whole register counts as one element (32 bits of b1 at a time), so there are 32 times fewer
        elements. `some`: the numbers of the elements to read, in C order; otherwise all are.
        """
        self._check_flat(registers, self.lanes * self.registers, "registers")
        table = self._word_table if words else self._table
        if some is not None:
            table = table._replace(source=table.source[some], bit=table.bit[some])
        if backend_of_move(registers.size) != "numba":
            return (registers[:, table.source] >> table.bit & table.mask).astype(table.storage)
        from tcemu.kernels.host.memory import read

        elements = np.empty((len(registers), table.source.size), table.storage)
        read(registers, table.source, table.bit, table.mask, elements)
        return elements

    def write(self, patterns: Array) -> Array:
        """The flat registers (warps, lanes * registers) that hold patterns (warps, rows * columns)."""
        self._check_flat(patterns, prod(self.shape), "patterns")
        if backend_of_move(patterns.size) != "numba":
            packed = self.container.pack(patterns[:, self.layout.gather])
            return packed.reshape(len(patterns), self.lanes * self.registers)
        from tcemu.kernels.host.memory import write

        registers = np.empty((len(patterns), self.lanes * self.registers), self.container.register_dtype)
        write(patterns, self._gather, self.container.width, self.container.shift, registers)
        return registers

    def _check_flat(self, registers: Array, columns: int, what: str) -> None:
        """Raise OperandError unless these are unsigned integers (warps, columns): a kernel would read past the end."""
        array = isinstance(registers, np.ndarray)
        if not array or registers.dtype.kind != "u" or registers.ndim != 2 or registers.shape[1] != columns:
            got = f"{registers.dtype} {registers.shape}" if array else briefly(registers)
            raise OperandError(
                f"{self.role} of {self.type}: {what} must be unsigned integers (warps, {columns}); got {got}"
            )

    @cached_property
    def _gather(self) -> Array:
        return self.layout.gather.reshape(-1, self.elements_per_register).astype(np.int32)

    @cached_property
    def _table(self) -> _Table:
        holder = self.layout.scatter.ravel()
        source, element = np.divmod(holder, self.elements_per_register)
        dtype = self.container.register_dtype.type
        mask = dtype((1 << (self.format.bits + self.format.padding)) - 1)
        place = (element * self.container.width + self.container.shift).astype(dtype)
        return _Table(source.astype(np.int32), place, mask, self.container.storage)

    @cached_property
    def _word_table(self) -> _Table:
        holder = self.layout.scatter.ravel()
        first = holder[holder % self.elements_per_register == 0] // self.elements_per_register
        dtype = self.container.register_dtype
        return _Table(first.astype(np.int32), np.zeros(first.size, dtype), dtype.type(-1 % (1 << 32)), dtype)

    @property
    def bits_of_elements(self) -> tuple[Array, Array]:
        """For each element of the matrix, in C order: its register among all lanes', int32 (n,), and first bit (n,)."""
        return self._table.source, self._table.bit

    @property
    def words_of_bits(self) -> tuple[Array, Array]:
        """The same for 32 bits of b1 at a time: the register of each word, and 0."""
        return self._word_table.source, self._word_table.bit

    @cached_property
    def _hash(self) -> int:
        return hash((self.role, self.layout, self.container, self.called))

    def __hash__(self) -> int:
        return self._hash

    def check(self, registers: npt.ArrayLike) -> Array:
        """`registers` as an array (..., lanes, registers). Raises OperandError for another dtype or shape."""
        dtype, expected = self.container.register_dtype, (self.lanes, self.registers)
        array = as_array(registers, f"operand {self.role}: not an array of registers")
        if array.dtype == dtype and array.shape[-2:] == expected:
            return array
        what = f"operand {self.role} ({self.type}) must be {dtype} registers of shape {_with_dots(expected)}"
        if array.dtype != dtype:
            raise OperandError(f"{what}; got dtype {array.dtype}. {self._dtype_advice(array.dtype)}")
        raise OperandError(f"{what}; got shape {array.shape}. {self._shape_advice(array.shape)}")

    def _dtype_advice(self, dtype: np.dtype[Any]) -> str:
        wanted = self.container.register_dtype
        if dtype.kind in "ui":
            same_bits = dtype.itemsize == wanted.itemsize and dtype.isnative
            return f"Use .{'view' if same_bits else 'astype'}(numpy.{wanted})."
        return "Fragment.pack turns a matrix into registers."

    def _shape_advice(self, shape: tuple[int, ...]) -> str:
        if len(shape) < 2:
            return "The last two axes are lanes and registers."
        if shape[-2:] == (self.registers, self.lanes):
            return "Lanes come first, then registers: transpose it."
        if shape[-2] != self.lanes:
            who = "a warp has 32 lanes" if self.lanes == 32 else "a warpgroup has 128 lanes"
            return f"Axis -2 has {shape[-2]} lanes, but {who}, and every lane takes part."
        have, need = shape[-1], self.registers
        each = f"{counted(self.layout.slots, 'element')} a lane, {self.elements_per_register} to a register"
        return f"{counted(have, 'register')} a lane where {need} {'are' if need != 1 else 'is'} needed ({each})."

    def __repr__(self) -> str:
        rows = " x ".join(str(size) for size in self.shape)
        held = f"{counted(self.registers, 'register')} a lane"
        return f"<fragment {self.role}: {rows} {self.type}, {held}, {self.layout.pattern}>"


def _with_dots(shape: tuple[int, ...]) -> str:
    return f"(..., {', '.join(str(size) for size in shape)})"
