"""What a row of the instruction table says about its forms, apart from their spelling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcemu.instructions.sparsity import Sparsity

#: A state space as the machine keeps it.
Space = Literal["shared", "global", "tensor", "local", "const", "param"]
#: What an instruction returns, if its words decide: registers, a predicate, or nothing.
Answer = Literal["", "value", "predicate"]


@dataclass(frozen=True)
class Facts:
    """Typed facts. Each family reads the few that concern it; the defaults mean nothing special."""

    #: The family whose rows of arithmetic apply, if it is not the instruction's own.
    computes_as: str = ""
    #: Bits that an element of A or B occupies, if more than its format has.
    width: int | None = None
    #: Whether each quad pair of lanes computes a separate product: mma.m8n8k4.
    quads: bool = False
    #: The kind of sparsity ("2:4"), the pattern it stands for, and how many products of each output are stored.
    sparsity: str = ""
    pattern: Sparsity | None = None
    stored: int = 0
    #: Number of selectors that the assembler accepts, if it accepts more than the manual gives.
    assembled: int = 0
    #: Scales of a row of A.
    scales: int = 0
    #: Whether imm_scale_a and imm_scale_b follow, and imm_trans_a and imm_trans_b.
    negates: bool = False
    transposes: bool = False
    #: Bytes of a row of ldmatrix and stmatrix.
    row: int = 16
    #: Whether all 32 lanes must give valid addresses, even if not all are used.
    all_lanes: bool = False
    #: Lanes that execute one together, if it has no fragments: 1, 32 or 128.
    lanes: int = 32
    #: The state spaces that a proxy fence orders.
    spaces: tuple[Space, ...] = ()
    #: Whether a third value follows: a compare-and-swap takes the new value after the one to compare with.
    swaps: bool = False
    #: Whether an mbarrier counts its bytes; other forms of the family go in groups.
    completes: bool = False
    #: Whether a number before the new value selects one of several: fields of a tensor map.
    numbered: bool = False
    #: Whether a fence names the bytes that it applies to.
    ranged: bool = False
    #: Whether a tensor copy follows the windows of a convolution, which have offsets: im2col.
    windows: bool = False
    #: Whether the second half of the lanes has an offset of its own: .16x32bx2 of tcgen05.
    halves: bool = False
    #: Whether tcgen05.mma takes a mask of lanes that it leaves unwritten, and an immediate that scales D.
    masks: bool = False
    scales_d: bool = False
    #: Whether the rows of A are shifted: A is in Tensor Memory.
    shifts: bool = False
    #: What it returns, if its words decide: vote, bar.red, mbarrier.arrive.
    answers: Answer = ""
    #: Whether a predicate says that all lanes agree: match.all.
    agrees: bool = False
    #: The memory order and scope of forms whose words give neither; see tcemu.instructions.elements.order_of.
    order: str = ""
    scope: str = ""
    #: Why the machine does not execute these forms; empty if it does.
    unsupported: str = ""
