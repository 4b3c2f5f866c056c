"""How the layout of each fragment is known: a table, like that of the arithmetic.

`known` is one of
    silicon     read from, or compared with, the registers of an H200 in this project's recordings
    manual      shown in a figure of the PTX manual
    assembler   derived from the load instructions that the assembler emits for the architecture
    published   read from hardware, or used in working libraries, by others
    inferred    concluded from a similar fragment; not compared, as far as we know

Where a note says CuTe, the traits of NVIDIA's own library (CUTLASS at 7107b05) were compared with the layouts here as a
second witness, lane by lane and slot by slot: 2,353 atoms of sm_70 to sm_120 and 23 matrix moves; none differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tcemu.errors import TableError, listing

Known = Literal["silicon", "manual", "assembler", "published", "inferred"]


@dataclass(frozen=True)
class Evidence:
    """One row: the fragments that it covers (an empty set means all), and how their layouts are known."""

    known: Known
    note: str
    families: frozenset[str]
    roles: frozenset[str] = frozenset()
    architectures: frozenset[int] = frozenset()
    shapes: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.known not in get_args(Known):
            raise TableError(f"known = {self.known!r} for {self.families}; it must be {listing(get_args(Known))}")

    def covers(self, family: str, role: str, architecture: int, shape: str) -> bool:
        """Whether the row covers this fragment."""
        asked = ((family, self.families), (role, self.roles), (architecture, self.architectures), (shape, self.shapes))
        return all(not accepted or word in accepted for word, accepted in asked)


def _row(
    known: Known, note: str, families: str, roles: str = "", architectures: tuple[int, ...] = (), shapes: str = ""
) -> Evidence:
    words = (frozenset(text.split()) for text in (families, roles, shapes))
    family, role, shape = words
    return Evidence(known, note, family, role, frozenset(architectures), shape)


_MMA, _SPARSE, _SCALED = "mma mma.sp", "mma.sp", "mma.block_scale"
_WMMA, _MOVES = "wmma.load wmma.store wmma.mma", "ldmatrix stmatrix movmatrix"
_VOLTA, _HOPPER = (70, 72), (90,)
#: Each type of A has two shapes: m16n8k16 and m16n8k32 of f16, for example.
_LONGER = "CuTe agrees on the longer shape of each type and lacks the shorter one"
_DISPUTED = "gpgpu-sim's B uses lane bit 2 instead of 3, CuTe's quad pairs do not; not in the manual"
_TENSOR = "CuTe's maps (CUTLASS at 7107b05), every element; no GPU was asked"
_EXTENSION = (
    "wmma_extension agrees on m16n16 of f16 and tf32, nothing else has a second source; not in the manual, other "
    "chips may differ"
)

#: The first row that covers a fragment counts.
ROWS: tuple[Evidence, ...] = (
    # ---- mma.sync
    _row("silicon", "the manual's figure; every recording of an H200 agrees", _MMA, "a b c d", _HOPPER),
    _row("manual", "one figure for all architectures; compared with an H200 and with CuTe", _MMA, "a b c d"),
    _row("silicon", f"lanes and chunks read from an H200, every selector; {_LONGER}", _SPARSE, "e", _HOPPER),
    _row("manual", f"one figure for all architectures; compared with an H200; {_LONGER}", _SPARSE, "e"),
    _row("manual", "CuTe agrees; no recording of scaled instructions exists", _SCALED, "scale_a scale_b"),
    _row("manual", "the figure of the unscaled form; CuTe agrees; no recording of scaled instructions exists", _SCALED),
    # ---- wgmma
    _row("silicon", "the manual's figure; every recording of an H200 agrees; CuTe too, but it has no b1", "wgmma"),
    # ---- tcgen05: the manual's figures are images, and no GPU was asked
    _row("published", f"{_TENSOR}; Triton's are the same", "tcgen05.ld tcgen05.st"),
    _row("published", f"{_TENSOR}; layout C, metadata of M = 64 and selectors 2 and 3 are refused", "tcgen05.mma"),
    _row("published", f"{_TENSOR}; A of fewer than 128 rows in Tensor Memory is refused", "tcgen05.mma.ws"),
    _row("published", f"{_TENSOR}; the rows of .4x256b and the bits of decompression are inferred", "tcgen05.cp"),
    _row("inferred", "the manual's words; the assembler takes it; no GPU was asked", "tcgen05.shift tcgen05.ld.red"),
    # ---- wmma: the manual leaves its fragments unspecified
    _row("published", f"read from a V100 by others (wmma_extension); {_DISPUTED}", _WMMA, "", _VOLTA),
    _row("silicon", f"read from an H200's registers; {_EXTENSION}", _WMMA, "", _HOPPER),
    _row("assembler", f"derived from the emitted loads; {_EXTENSION}", _WMMA),
    # ---- matrices to and from shared memory
    _row("published", "observed on an H100 by others (vLLM, pull request 50096)", _MOVES, "", _HOPPER, "m8n16"),
    _row("published", "as libraries use it; CuTe agrees on b8, b8x16 is not confirmed", _MOVES, "", (), "m16n16"),
    _row("published", "as libraries use it; CuTe agrees on b8x16, s8.s4 is not confirmed", _MOVES, "", (), "m8n16"),
    _row("published", "as libraries use it; CuTe agrees; no recording", _MOVES, "", (), "m16n8"),
    _row("silicon", "the manual's figure; every recording of an H200 agrees", _MOVES, "", _HOPPER),
    _row("manual", "one figure for all architectures; on sm_90 compared with an H200", _MOVES),
)

_NONE = Evidence("inferred", "no row of the table of layouts covers it", frozenset())


def evidence(family: str, role: str, architecture: int, shape: str) -> Evidence:
    """How the layout of a fragment is known, e.g. ("mma", "a", 90, "m16n8k16")."""
    return next((row for row in ROWS if row.covers(family, role, architecture, shape)), _NONE)
