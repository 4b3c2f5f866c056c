"""THE TABLE of the ladder's rungs: what each one teaches, and by what it is judged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tcemu.arguments import explained
from tcemu.errors import CourseError, briefly, listing
from tcemu.show.folded import folded
from tcemu.show.prose import inline

#: The given kernels in both languages, and the headers of those in CUDA C++.
GIVEN = Path(__file__).parent / "rungs"
#: The languages of an answer, by the ends of their files' names.
LANGUAGES = {"py": "Python", "cu": "CUDA C++"}

Sizes = tuple[int, int, int]


@dataclass(frozen=True)
class Rung:
    """One kernel of the ladder, D = A B^T: A (m, k) and B (n, k) of f16, D (m, n) of f32.

    >>> from tcemu.course import ladder
    >>> ladder.RUNGS[5].name, ladder.RUNGS[5].source("cu").splitlines()[0][:21]
    ('swizzle', '// Rung 6, swizzle: t')
    """

    number: int
    name: str
    title: str
    #: What is new, what the learner changes, and hints.
    new: str
    task: str
    hints: tuple[str, ...]
    #: Opcodes, or parts of them that begin with a point, which the kernel itself must issue.
    needed: tuple[str, ...]
    #: Sizes (m, n, k) whose bits are compared: awkward ones, as far as the rung allows.
    shapes: tuple[Sizes, ...]
    #: The product whose cycles are counted, on two SMs, and at most how many they may be.
    track: Sizes
    goal: dict[str, int]
    #: Cycles of the given kernels. Up to rung 6, the two wait for loads at different places: see the notebook.
    given: dict[str, int]
    #: Blocks in a cluster, across and down.
    cluster: tuple[int, int] = (1, 1)
    #: Whether there are as many blocks as multiprocessors, instead of one for each tile.
    persistent: bool = False
    #: Whether D has the bits of a chain of fused multiply-adds in f32 instead of a tensor core's.
    fused_chain: bool = False

    def __str__(self) -> str:
        return f"rung {self.number}, {self.name}"

    @property
    def folded_hints(self) -> str:
        """The hints as a page shows them."""
        hints = (folded(f"Hint {number}", f"<p>{inline(hint)}</p>") for number, hint in enumerate(self.hints, 1))
        return f'<div style="margin-bottom:1em">{"".join(hints)}</div>'

    def source(self, language: str) -> str:
        """The given kernel."""
        return (GIVEN / f"{self.name}.{language}").read_text(encoding="utf-8")


def _cycles(python: int, cuda: int) -> dict[str, int]:
    return {"py": python, "cu": cuda}


_SMALL, _LARGE = (256, 128, 256), (512, 256, 512)
_AWKWARD = ((72, 168, 200),)

RUNGS = (
    Rung(
        1, "naive", "A thread for each element",
        "Every thread computes one element of D: it walks along a row of A and a row of B, and adds up products with "
        "f32 fused multiply-adds. No tensor core takes part. Each element of A is loaded again for every column of "
        "D, and each of B for every row, so almost all the time goes into loads. This is the yardstick: remember its "
        "share of the peak.",
        "Write the loop over k. Threads beyond the edges of D must neither load nor store.",
        (
            "Which row of D belongs to a thread of a block of 16 x 16? Divide its number by 16.",
            "One step of the loop is `c = fma(a[row][i], b[column][i], c)`, with both factors converted to f32.",
        ),
        (),
        ((19, 37, 23),), (64, 64, 64), _cycles(45000, 25000), _cycles(20554, 18909), fused_chain=True,
    ),
    Rung(
        2, "wmma", "A warp for each 16 x 16",
        "`wmma.mma` multiplies 16 x 16 x 16 with one instruction, which all 32 lanes of a warp issue together. The "
        "lanes hold the operands between them: nobody says which lane holds what, and only the wmma instructions know. "
        "`wmma.load` and `wmma.store` therefore take addresses in memory and a stride. B is stored as rows along k, "
        "which is a column-major matrix of k rows.",
        "Replace the thread's element by the warp's tile: four warps of a block compute 32 x 32. Load, multiply and "
        "store with wmma. D comes in whole tiles, and k is a multiple of 16.",
        (
            "The stride of A and B is k, the stride of D is n. Which of the two operands is `.col`?",
            "The accumulator is a fragment of zeros before the loop: 8 registers in each lane.",
        ),
        ("wmma.mma",),
        ((64, 32, 48),), _SMALL, _cycles(12500, 10600), _cycles(11300, 10122),
    ),
    Rung(
        3, "mma_sync", "Fragments by hand",
        "`mma.sync` has a documented layout: lane l holds rows l / 4 and l / 4 + 8, and pairs of neighbouring elements "
        "along k. So every lane loads its own registers, and may do more with them than wmma allows: this warp keeps "
        "64 x 32 of D in 64 registers and uses each fragment several times. Lanes beyond the edges hold zeros, so D "
        "may have any size. The loads are the price: 4 bytes for each lane from eight different rows, four times as "
        "many instructions as wmma needs.",
        "Load the registers of A and B for each step of 16 along k, and issue 4 x 4 products of m16n8k16. Store pairs "
        "of the accumulator. m is any number, n and k are even.",
        (
            "Register r of A: 8 more rows for odd r, 8 more columns for r >= 2. B: 8 more along k for r = 1.",
            "B is `.col`: its registers are pairs along k, and a row of our B lies along k. Nothing is transposed.",
            (
                "In Python, `warp.only` leaves the registers of the other lanes unwritten: copy what was loaded into "
                "`warp.registers(4, fill=0)`, but only after the last load, since looking at a register waits for it."
            ),
        ),
        ("mma.sync",),
        ((72, 168, 38),), _SMALL, _cycles(14400, 11900), _cycles(12937, 10680),
    ),
    Rung(
        4, "ldmatrix", "Shared memory and ldmatrix",
        "The warps of a block need the same rows of A and B. The block therefore copies a tile of each, 128 x 64, to "
        "shared memory once, 16 bytes at a time, and every warp reads it from there. `ldmatrix.x4` loads four 8 x 8 "
        "matrices with one instruction: eight lanes give the addresses of the rows of one matrix, and each lane gets "
        "exactly the registers that mma.sync wants. Two barriers are needed in each step: one before the tile is read, "
        "one before it is overwritten.",
        "Copy tiles to shared memory, then load fragments with ldmatrix. k is a multiple of 8: rows are whole units of "
        "16 bytes.",
        (
            (
                "A tile has 1,024 units of 16 bytes, and the block 256 threads: each thread copies four. In Python, "
                "issue the four loads before the first store, since looking at a register waits for its load."
            ),
            "Lanes 0-15 give rows 0-15 of the first unit along k, lanes 16-31 the same rows of the next unit.",
            "B comes as rows along k too, so ldmatrix needs no .trans; its registers 0 and 2 belong to columns 0-7.",
        ),
        ("ldmatrix", "mma.sync"),
        _AWKWARD, _SMALL, _cycles(40000, 40000), _cycles(31027, 37589),
    ),
    Rung(
        5, "cp_async", "Stages of cp.async",
        "A load waits in a register until it can be stored to shared memory, and the warp waits with it. `cp.async` "
        "copies from global to shared memory without registers and without waiting. With three stages of shared "
        "memory, two tiles are on their way while the third is multiplied. A thread knows about its own copies only: "
        "`cp.async.wait_group` waits for them, and the barrier after it for everybody's. Because it also says that all "
        "have read the previous stage, one barrier in each step is enough.",
        "Give shared memory three stages, and replace load and store by cp.async. Commit one group in each step, also "
        "an empty one. Beyond the edges, cp.async reads 0 of 16 bytes and writes zeros.",
        (
            "Before the loop: copies for the first two steps, each in a group of its own.",
            "wait_group 1 leaves one group pending: which one is the oldest, and so complete?",
            "Where may the copy for step + 2 be issued? Its stage is the one that step - 1 has read.",
        ),
        ("cp.async", "ldmatrix", "mma.sync"),
        _AWKWARD, _SMALL, _cycles(31000, 31000), _cycles(28285, 29747),
    ),
    Rung(
        6, "swizzle", "Other banks for other rows",
        "Rows of 128 bytes fill all 32 banks, so the eight rows that ldmatrix reads at the same column lie in the same "
        "four banks, and it takes eight wavefronts instead of one. The swizzle permutes the eight 16-byte units of "
        "each row: unit u of row r goes to u XOR r mod 8. It costs no memory, and hardly an instruction. CuTe calls it "
        "Swizzle<3,4,3> (of bytes), and TMA will do the same by itself.",
        "Change one line, the function `place`. Both the copies and ldmatrix must use it.",
        (
            "Eight rows, one column of units: which function of row and unit gives eight different units?",
            "A row still begins at 128 * row, and its eight units stay in it: only their order changes.",
            "Mind the precedence: in both languages, +, * and % bind more tightly than ^.",
        ),
        ("cp.async", "ldmatrix", "mma.sync"),
        _AWKWARD, _SMALL, _cycles(8400, 9900), _cycles(7392, 8862),
    ),
    Rung(
        7, "wgmma_tma", "wgmma and TMA",
        "`wgmma` multiplies 64 x 256 x 16, four warps together, and reads A and B from shared memory through "
        "descriptors: no ldmatrix, no fragments, and only the accumulator is in registers, 128 of each thread. TMA "
        "copies whole tiles: one thread names a box of the tensor map, and the copy engine computes all addresses, "
        "swizzles the rows and fills what lies beyond the edges with zeros. An mbarrier counts the bytes; its phase "
        "completes when all have arrived. The structure is as with cp.async: stages, and a barrier in each step.",
        "Replace the copies by two boxes that thread 0 requests, the wait by an mbarrier for each stage, and the "
        "products by four wgmma for each stage. The tile is now 128 x 256, for two warpgroups. In Python, "
        "`TensorMap.of(a, (64, 128), swizzle=128)` of `tcemu.machine.tensor_map` is A's map. In CUDA C++, the first "
        "two parameters are `const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b`, and LAUNCH "
        "ends with the rows of A's and of B's box; both are 64 columns wide.",
        (
            "The phase to wait for is the number of the round through the stages, modulo 2.",
            "wgmma.wait_group 1 after a commit: which group is complete then, and which stage has been read?",
            (
                "A step of 16 along k is 32 bytes in the descriptor's start address, which it holds in units of 16 "
                "bytes: in CUDA C++, add 2. Tiles begin at multiples of 1,024."
            ),
            "TMA sees an mbarrier only after `fence.mbarrier_init`, in the thread that has initialised it.",
        ),
        ("wgmma.mma_async", "cp.async.bulk.tensor"),
        ((200, 300, 392),), _LARGE, _cycles(29800, 29800), _cycles(28610, 28610),
    ),
    Rung(
        8, "warp_specialised", "A producer and consumers",
        "The barrier in each step makes the warpgroups wait for each other, and thread 0 has two jobs. So the jobs are "
        "divided: the producer, a warpgroup of its own, only copies; two consumers only multiply. A second mbarrier "
        "for each stage, `empty`, tells the producer that all warps have read it. No barrier of the block is left in "
        "the loop. The producer needs few registers and the consumers many: `setmaxnreg` moves them, 40 for 232.",
        "Divide the kernel into `produce` and `consume`, with mbarriers full and empty for each stage.",
        (
            "The producer's first wait must not block: on a new mbarrier, a wait for parity 1 returns at once.",
            "A stage is released when its group is complete: after wait_group 1 that is the stage of the step before.",
            "mbarrier.init counts arrivals: the producer's one at full, and at empty one for each warp that releases.",
            "All four warps of the warpgroup execute setmaxnreg, though only one lane copies.",
        ),
        ("wgmma.mma_async", "cp.async.bulk.tensor", "setmaxnreg.inc", "setmaxnreg.dec"),
        ((200, 300, 392),), _LARGE, _cycles(29900, 29900), _cycles(28864, 28864),
    ),
    Rung(
        9, "cluster", "A cluster shares B",
        "Two blocks, one below the other, multiply the same rows of B, and each reads them from the L2. In a cluster "
        "they share: each block copies half of the tile, and `.multicast::cluster` delivers it to both. A stage may "
        "then be refilled only when the consumers of both blocks have read it, so they arrive at the `empty` mbarriers "
        "of both. The timeline has no traffic of other SMs and sees only the price of the agreement; an H100 with 132 "
        "busy SMs sees the traffic that is saved.",
        "Make clusters of two blocks down. Copy half of B's box in each block, to both; release a stage in both. In "
        "Python, the check launches clusters; in CUDA C++, write `__cluster_dims__(1, 2, 1)` before the kernel's name.",
        (
            "The bytes to expect stay the same: half of B's comes from the other block.",
            "`mapa` gives the address of the same mbarrier in another block: lanes 0 and 1 arrive at one each.",
            (
                "Each block signals the other's mbarriers. They must exist before the first copy, and their block must "
                "not exit before the last: begin and end with the barrier of the cluster."
            ),
        ),
        ("wgmma.mma_async", ".multicast::cluster", "setmaxnreg.inc", "setmaxnreg.dec"),
        ((300, 300, 392),), _LARGE, _cycles(31200, 31200), _cycles(29962, 29914), cluster=(1, 2),
    ),
    Rung(
        10, "persistent", "As many blocks as multiprocessors",
        "A new block starts with empty stages, and ends with a store during which nothing is multiplied. A persistent "
        "block never ends: it takes tile after tile, and while the consumers store one, the producer already fills the "
        "stages of the next. Stages and phases are counted on across tiles. The order of the tiles matters too: groups "
        "of eight pairs of rows are visited column by column, so that the blocks that run together share rows and "
        "columns in the L2.",
        "Put a loop over tiles around `produce` and `consume`. The grid is fixed: blocks / 2 clusters across, 2 blocks "
        "down. So ctaid.x is the number of the cluster, which takes two tiles at a time, one below the other. Every "
        "order of the tiles reaches the goal; only a real GPU rewards the one above.",
        (
            "The producer and the consumers take the same tiles in the same order: every nctaid.x-th from ctaid.x on.",
            "step % STAGES is no longer the stage: count the steps of all tiles.",
            "The last stage of a tile must be released too; before, the kernel ended there.",
        ),
        ("wgmma.mma_async", ".multicast::cluster", "setmaxnreg.inc", "setmaxnreg.dec"),
        ((600, 500, 136),), _LARGE, _cycles(28900, 28900), _cycles(27835, 27896), cluster=(1, 2), persistent=True,
    ),
)  # fmt: skip
NAMES = tuple(each.name for each in RUNGS)


@explained
def rung_named(name: str | int) -> Rung:
    """The rung with a name or a number, counted from 1. Raises CourseError.

    >>> from tcemu.course.ladder.table import rung_named
    >>> str(rung_named(6))
    'rung 6, swizzle'
    """
    for each in RUNGS:
        if name in (each.name, each.number) and not isinstance(name, bool):
            return each
    raise CourseError(f"the ladder has no rung {briefly(name)}; from the bottom up it has {listing(NAMES, 'and')}")


@explained
def language_of(name: str) -> str:
    """Return "py" or "cu", for "Python", "CUDA C++", "cuda" and the like. Raises CourseError.

    >>> from tcemu.course.ladder.table import language_of
    >>> language_of("CUDA C++"), language_of("python")
    ('cu', 'py')
    """
    short = {"py": "py", "python": "py", "cu": "cu", "cuda": "cu", "c++": "cu", "cuda c++": "cu"}
    if name.lower() not in short:
        raise CourseError(f'the language must be "Python" or "CUDA C++"; got {briefly(name)}')
    return short[name.lower()]


def before(rung: Rung) -> Rung | None:
    """The rung below; none below the first."""
    return RUNGS[rung.number - 2] if rung.number > 1 else None
