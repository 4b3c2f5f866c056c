"""fragment: a tile of a matrix in the registers of a warp."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, counted
from tcemu.instructions import Shape
from tcemu.wmma.elements import Elements, fits, of_dtype, unwritten
from tcemu.wmma.kind import GUIDE, Kind
from tcemu.wmma.names import Tag, Type
from tcemu.wmma.target import current_target

Array = npt.NDArray[Any]


class fragment:  # noqa: N801 - CUDA's name
    """wmma::fragment<Use, m, n, k, T, Layout>: a tile of A (m x k), B (k x n) or the sum (m x n) in a warp's registers.

    `use` is matrix_a, matrix_b or accumulator; m, n and k are the tile of one warp; `type` is half, bfloat16, float,
    double, int, signed_char, unsigned_char, precision.tf32 or experimental.precision.u4, s4, b1 (Python's float and int
    mean C++'s 32-bit types; numpy dtypes and C++ names as text are accepted too); `layout` is row_major or col_major
    for A and B, and left out for accumulators. `target` is the architecture; see :func:`tcemu.wmma.target`.

    A new fragment is empty, and reading it is an error. Which lane holds which element is unspecified and differs
    between architectures (PTX ISA 9.7.14.4.1; CUDA C++ Programming Guide, Warp Matrix Functions).

    Raises IllegalInstruction if CUDA's header does not declare the type, or not for that target; OperandError and
    TargetError for invalid template arguments.

    >>> from tcemu import wmma
    >>> a = wmma.fragment(wmma.matrix_a, 16, 16, 16, wmma.half, wmma.row_major)
    >>> wmma.fill_fragment(a, 2)
    >>> a.num_elements, a.x.shape, a.read().shape  # elements a lane; x has all lanes; registers as in PTX
    (16, (32, 16), (32, 8))
    >>> b = a.copy()
    >>> b.write(a.read())
    >>> b.x[0, 0]
    np.float16(2.0)
    """

    def __init__(
        self, use: Tag | str | None = None, m: int | None = None, n: int | None = None, k: int | None = None,
        type: Type | Any = None, layout: Tag | str | None = None, *, target: str | None = None,  # noqa: A002 - as in C++
    ) -> None:  # fmt: skip
        self.kind = Kind.read(use, m, n, k, type, layout, current_target() if target is None else target)
        self._registers = np.zeros((32, self.kind.fragment.registers), self.kind.fragment.container.register_dtype)
        self._written = np.zeros((32, self.num_storage_elements), bool)

    @property
    def use(self) -> Tag:
        """matrix_a, matrix_b or accumulator."""
        return self.kind.use

    @property
    def shape(self) -> Shape:
        """(m, n, k)."""
        return self.kind.shape

    @property
    def element_type(self) -> Type:
        """The type of the elements."""
        return self.kind.type

    @property
    def layout(self) -> Tag | None:
        """row_major or col_major; None for an accumulator."""
        return self.kind.layout

    @property
    def target(self) -> str:
        """The architecture to which the registers belong."""
        return self.kind.target

    @property
    def num_elements(self) -> int:
        """Number of elements that a lane holds, including copies if A or B is held more than once."""
        return self.kind.fragment.layout.slots

    @property
    def num_storage_elements(self) -> int:
        """Length of x in a lane: num_elements, or fewer if elements are packed (u4, s4, b1)."""
        fragment = self.kind.fragment
        return fragment.registers * fragment.container.register_bits // (8 * self.kind.type.dtype.itemsize)

    @property
    def x(self) -> Elements:
        """The elements, (..., 32, num_storage_elements), in the storage's dtype. Writing to x changes the fragment.

        You can assign an array of that shape and dtype, or x of a fragment of the same type. Raises OperandError for
        anything else.
        """
        return Elements(self.kind, self._registers.view(self.kind.type.dtype), self._written)

    @x.setter
    def x(self, value: Any) -> None:
        if isinstance(value, Elements):
            fits(self.kind, value.kind)
        array = of_dtype(self.kind, value)
        expected = (32, self.num_storage_elements)
        if array.shape[-2:] != expected:
            raise OperandError(
                f"x of {self.kind} must have shape (..., 32, {expected[1]}), lanes and elements; got {array.shape}. "
                "fill_fragment sets all elements to one number."
            )
        self.write(np.array(array, order="C").view(self._registers.dtype))

    def read(self) -> Array:
        """The registers (..., 32, registers) as in PTX. Raises OperandError if an element was never written."""
        if not self._written.all():
            raise unwritten(self.kind, self._written)
        return self._registers

    def write(self, registers: Array) -> None:
        """Replace the registers, (..., 32, registers); leading axes are warps."""
        self._registers = registers
        self._written = np.ones((*registers.shape[:-1], self.num_storage_elements), bool)

    def copy(self) -> fragment:
        """A copy, as C++ makes by assignment; in Python `b = a` gives one fragment a second name."""
        twin = object.__new__(fragment)
        twin.kind, twin._registers, twin._written = self.kind, self._registers.copy(), self._written.copy()
        return twin

    def __repr__(self) -> str:
        shape = self._registers.shape
        state = (
            "empty"
            if not self._written.any()
            else f"x {(*shape[:-1], self.num_storage_elements)} {self.kind.type.dtype}"
        )
        return f"<{self.kind} on {self.target}: {counted(self.num_elements, 'element')} a lane, {state}>"


def expect(value: object, what: str) -> fragment:
    """`value` if it is a fragment. Raises OperandError for anything else."""
    if isinstance(value, fragment):
        return value
    if isinstance(value, type) and issubclass(value, fragment):
        raise OperandError(
            f"{what} must be a fragment, not the template itself: make one with fragment(use, m, n, k, type, layout) "
            f"({GUIDE})"
        )
    raise OperandError(f"{what} must be a fragment; got an object of type {type(value).__name__} ({GUIDE})")


def fill_fragment(frag: fragment, value: float) -> None:
    """Set every element to one number, rounded to the type; u4 and s4 take its low 4 bits, b1 the lowest bit.

    Raises OperandError for anything that is not a number of the type.

    >>> from tcemu import wmma
    >>> acc = wmma.fragment(wmma.accumulator, 16, 16, 16, float)
    >>> wmma.fill_fragment(acc, 0.5)
    >>> acc.x[31, :2]
    array([0.5, 0.5], dtype=float32)
    """
    kind = expect(frag, "the first argument of fill_fragment").kind
    number = np.asarray(kind.type.number(value, f"fill_fragment of {kind}"))
    whole, container = kind.fragment, kind.fragment.container
    pattern = (
        number.astype(np.int64).astype(np.uint64) & kind.type.form.code_mask
        if kind.type.packed
        else number.view(container.storage)
    )
    frag.write(container.pack(np.full((32, whole.layout.slots), pattern, container.storage)))
