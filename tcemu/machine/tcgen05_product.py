"""What a tcgen05.mma computes: its instruction descriptor, with the arithmetic of the target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import FusedSums, IntegerDot, Operation, compute
from tcemu.errors import OperandError
from tcemu.formats import lookup
from tcemu.instructions import Instruction
from tcemu.machine.tensor_memory import WHOLE

Array = npt.NDArray[Any]
_TYPES = {
    "kind::f16": {0: "f16", 1: "bf16"}, "kind::tf32": {2: "tf32"},
    "kind::f8f6f4": {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}, "kind::i8": {0: "u8", 1: "s8"},
}
_D = {0: "f16", 1: "f32", 2: "s32"}
_K = {"kind::f16": 16, "kind::tf32": 8, "kind::f8f6f4": 32, "kind::i8": 32}
_BITS = {"e2m3": 6, "e3m2": 6, "e2m1": 4}


@dataclass(frozen=True)
class Product:
    """The product of one tcgen05.mma: shape, types, and how A and B lie."""

    m: int
    n: int
    k: int
    operation: Operation
    negate_a: bool
    negate_b: bool
    mn_major_a: bool
    mn_major_b: bool

    @cached_property
    def a_bits(self) -> int:
        """Bits of an element of A."""
        return _BITS.get(self.operation.a) or lookup(self.operation.a).container

    @cached_property
    def b_bits(self) -> int:
        """Bits of an element of B."""
        return _BITS.get(self.operation.b) or lookup(self.operation.b).container

    @cached_property
    def d_bits(self) -> int:
        """The bits of a cell of Tensor Memory that D takes."""
        return 0xFFFF if self.operation.d == "f16" else WHOLE

    @cached_property
    def d_storage(self) -> np.dtype[Any]:
        """The dtype of D's patterns."""
        return self.operation.formats["d"].storage

    def compute(self, a: Array, b: Array, c: Array) -> Array:
        """D (m, n) from A (m, k), B (k, n) and C (m, n)."""
        forms = self.operation.formats
        a, b = (x.astype(forms[role].storage, copy=False) for role, x in (("a", a), ("b", b)))
        a = a ^ a.dtype.type(forms["a"].sign_bit) if self.negate_a else a
        b = b ^ b.dtype.type(forms["b"].sign_bit) if self.negate_b else b
        found = compute(self.operation, a[None], np.ascontiguousarray(b)[None], c[None])
        return np.asarray(found[0])


@lru_cache(maxsize=256)
def product_of(instruction: Instruction, idesc: int, target: str) -> Product:
    """The product that an instruction descriptor describes."""
    kind = instruction.words["kind"]
    if kind not in _TYPES:
        raise OperandError(f"{instruction}: not yet")
    a, b, d = _TYPES[kind][idesc >> 7 & 7], _TYPES[kind][idesc >> 10 & 7], _D[idesc >> 4 & 3]
    k = _K[kind]
    if kind == "kind::i8":
        model: Any = IntegerDot()
    else:
        model = FusedSums(25, k, -21 if d == "f16" else -133)
    operation = Operation(model, a, b, d, d, k, (("satfinite", "satfinite"),) if idesc >> 3 & 1 else ())
    flags = [bool(idesc >> bit & 1) for bit in (13, 14, 15, 16)]
    return Product((idesc >> 24 & 31) * 16, (idesc >> 17 & 63) * 8, k, operation, *flags)
