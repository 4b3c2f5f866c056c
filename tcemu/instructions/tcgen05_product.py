"""What one tcgen05.mma computes, on matrices of bits: D from A, B, D and scales (PTX ISA 9.1, 9.7.16.10).

Where the matrices lie is another question (tcemu.layouts.tcgen05, tcemu.layouts.descriptor). The machine uses these
functions; they need no machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import Operation, Row, compute, compute_scaled, find
from tcemu.errors import ArithmeticUnknown, OperandError
from tcemu.formats import lookup
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.sparsity import SPARSITY, Sparsity
from tcemu.instructions.targets import Target, target_named
from tcemu.layouts.instruction_descriptor import KINDS, InstructionDescriptor, Kind

Array = npt.NDArray[Any]

#: Elements that share a scale: what the opcode says, and what it means if it says nothing.
_BLOCKS = {"block16": 16, "block32": 32, "scale_vec::4X": 16, "scale_vec::2X": 32, "scale_vec::1X": 32, "": 32}
#: How A is pruned: kinds of 4 bits that share a byte keep pairs of elements, tf32 one of two.
_PATTERNS = {"tf32": "1:2", "mxf4": "4:8", "mxf4nvf4": "4:8"}
_SCALED_D = "how the hardware rounds a D that scale_input_d has made smaller"


@dataclass(frozen=True)
class Product:
    """One tcgen05.mma: its opcode and its instruction descriptor, which agree, on one target.

    >>> from tcemu.instructions.tcgen05_product import Product
    >>> product = Product.of(tcemu.parse("tcgen05.mma.cta_group::1.kind::f16"), 0x08400010, "sm_100a")
    >>> str(product.descriptor.shape), product.row.known
    ('m128n256k16', 'paper')
    """

    instruction: Instruction
    descriptor: InstructionDescriptor
    target: Target

    @classmethod
    def of(cls, instruction: Instruction, idesc: int, target: Target | str) -> Product:
        """Check that the instruction takes these 32 bits. Raises LayoutError, and ArithmeticUnknown for K = 96."""
        words = instruction.words
        ws = instruction.family == "tcgen05.mma.ws"
        descriptor = InstructionDescriptor.decode(int(idesc), words["kind"].removeprefix("kind::"), ws)
        group = int(words["cta_group"][-1])
        block = block_of(instruction)
        descriptor.check(cta_group=group, sparse="sp" in words, ws=ws, block=block)
        if descriptor.k96:
            raise ArithmeticUnknown(f"{instruction}: where the scales of K = 96 lie has not been published")
        return cls(instruction, descriptor, target_named(target) if isinstance(target, str) else target)

    @property
    def kind(self) -> Kind:
        """What the .kind multiplies."""
        return KINDS[self.descriptor.kind]

    @property
    def stored(self) -> int:
        """Elements of a row of A that are stored: half of K for a sparse A."""
        return self.descriptor.k // (2 if self.descriptor.sparse else 1)

    @property
    def pattern(self) -> Sparsity | None:
        """How A is pruned, and what four bits of metadata mean; None for a dense A."""
        if not self.descriptor.sparse:
            return None
        return SPARSITY[_PATTERNS.get(self.descriptor.kind, "2:4"), "sp"]

    @property
    def scales(self) -> int:
        """Scales of a row of A, and of a column of B; 0 without scales."""
        return self.stored // block_of(self.instruction) if self.kind.scaled else 0

    @cached_property
    def row(self) -> Row:
        """The row of the arithmetic table. Raises ArithmeticUnknown."""
        desc, family = self.descriptor, family_of_sums(self.instruction)
        return find(self.target.number, family, desc.shape, desc.a, desc.b, desc.d, desc.d)

    @cached_property
    def operation(self) -> Operation:
        """What one output is: the model over the products that take part."""
        desc = self.descriptor
        saturate = (("satfinite", "satfinite"),) if desc.saturate else ()
        return Operation(
            self.row.model, desc.a, desc.b, desc.d, desc.d, depth=self.stored, qualifiers=saturate,
            scale=desc.scale_type,
        )  # fmt: skip

    def compute(
        self,
        a: Array,
        b: Array,
        d: Array,
        *,
        enable_d: bool = True,
        scale_a: Array | None = None,
        scale_b: Array | None = None,
        stored_k: Array | None = None,
        scale_d: int = 0,
    ) -> Array:
        """Bits of the new D (w, m, n) from bits of A (w, m, stored), of B (w, k, n) and of D.

        Scales are bits too: (w, m, s) of A and (w, s, n) of B. `stored_k` (w, m, stored) has the k of each stored
        element of a sparse A. Raises ArithmeticUnknown for what nobody has published.
        """
        if scale_d:
            raise ArithmeticUnknown(f"{self.instruction}: nobody has published {_SCALED_D}; leave scale_input_d 0")
        if (stored_k is None) == self.descriptor.sparse:
            raise OperandError(f"{self.instruction}: a sparse A needs stored_k, a dense one takes none")
        addend = d if enable_d else np.zeros_like(d)
        desc = self.descriptor
        left = self._signed(a, desc.a, desc.negate_a)
        right = self._signed(b, desc.b, desc.negate_b)
        if not self.kind.scaled:
            return compute(self.operation, left, right, addend, stored_k)
        if scale_a is None or scale_b is None:
            raise OperandError(f"{self.instruction}: its kind multiplies with scales")
        return compute_scaled(self.operation, left, right, addend, scale_a, scale_b, stored_k)

    @staticmethod
    def _signed(patterns: Array, name: str, negate: bool) -> Array:
        return patterns ^ patterns.dtype.type(lookup(name).sign_bit) if negate else patterns


def block_of(instruction: Instruction) -> int:
    """Elements that share a scale; 0 without scales."""
    words = instruction.words
    return _BLOCKS[words.get("scale_vectorsize", "")] if "block_scale" in words else 0


def family_of_sums(instruction: Instruction) -> str:
    """The family of the rows of arithmetic: kinds with scales have their own."""
    words = instruction.words
    kind = {"kind::mxf8f6f4": ".mxf8f6f4", "kind::mxf4": ".mxf4", "kind::mxf4nvf4": ".mxf4"}.get(words["kind"], "")
    ws = ".ws" if instruction.family == "tcgen05.mma.ws" else ""
    return f"tcgen05.mma{kind}{ws}{'.sp' if 'sp' in words else ''}"
