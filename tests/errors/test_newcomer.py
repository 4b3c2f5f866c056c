"""Arguments that a newcomer passes by mistake: each gives a readable TcemuError or a value, never numpy's error."""

from functools import partial

import numpy as np
from quick import some

import tcemu
from tcemu import TcemuError, formats, layouts, microscaling, show, sparse, wmma
from tcemu.instructions import Shape, target_named
from tcemu.instructions.catalogue import catalogue
from tcemu.instructions.compare import compare
from tcemu.layouts import Descriptor, Layout
from tcemu.timing.costs import costs

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
SPARSE = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
SCALED = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
LOAD = "ldmatrix.sync.aligned.m8n8.x1.shared.b16"


class Tensor:
    """As a tensor of another library: an array on the CPU, an error on a GPU."""

    def __init__(self, array=None):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        if self.array is None:
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        return self.array


WRONG = [
    None, "x", "", 1, -1, 10**30, 1.5, float("nan"), True, [], [1, 2], [[1, 2], [3]], {}, b"abc", range(5), np.float16,
    object(), np.uint32(3), np.zeros((2, 2)), np.zeros((32, 4), np.float32), np.zeros((32, 4), complex),
    np.array(["a"]), np.array([None]), np.zeros((0, 0)), Tensor(), Tensor(np.zeros((32, 4), np.uint32)),
]  # fmt: skip


def regs(count):
    return np.zeros((32, count), np.uint32)


def kernel(_warp):
    """Do nothing."""


def product(warp, a, b):
    """Takes two arrays."""


def one_array(warp, a):
    """Takes one array."""


FRAGMENT = tcemu.parse(MMA).fragments["a"]
TILE = Descriptor.for_tile("f16", 64, 64, swizzle=128)
SHARED = np.zeros(8192, np.uint8)
HALVES, ONES, BYTES = np.zeros((16, 32), np.float16), np.ones((1, 32)), np.full((16, 2), 127, np.uint8)
FLOATS = np.zeros((16, 16), np.float32)


def accumulator():
    return wmma.fragment(wmma.accumulator, 16, 16, 16, float)


#: Calls with one argument missing, by what it is.
CALLS = {
    "parse": tcemu.parse,
    "parse, target": partial(tcemu.parse, MMA),
    "parse, ptx": partial(tcemu.parse, MMA, None),
    "run": lambda given: tcemu.run(given, regs(4), regs(2), regs(4)),
    "run, a": lambda given: tcemu.run(MMA, given, regs(2), regs(4)),
    "run, target": lambda given: tcemu.run(MMA, regs(4), regs(2), regs(4), target=given),
    "run, shared": lambda given: tcemu.run(LOAD, np.zeros(32, int), shared=given),
    "run, addresses": lambda given: tcemu.run(LOAD, given, shared=SHARED),
    "matmul, a": lambda given: tcemu.matmul(given, np.zeros((16, 8), np.float16), instruction=MMA),
    "matmul, instruction": lambda given: tcemu.matmul(HALVES, HALVES.T, instruction=given),
    "wavefronts": lambda given: tcemu.wavefronts(given, "ld.shared.b32"),
    "wavefronts, access": lambda given: tcemu.wavefronts(4 * np.arange(32), given),
    "launch": tcemu.launch,
    "launch, grid": partial(tcemu.launch, kernel),
    "launch, block": partial(tcemu.launch, kernel, 1),
    **{
        f"launch, {name}": lambda given, name=name: tcemu.launch(kernel, **{name: given})
        for name in ("args", "shared", "target", "seed", "policy", "sanitizer", "observers")
    },
    "prune": lambda given: sparse.prune(given, "2:4"),
    "prune, pattern": partial(sparse.prune, np.zeros(4)),
    "compress": lambda given: sparse.compress(given, SPARSE),
    "compress, instruction": partial(sparse.compress, HALVES),
    "compress, selector": partial(sparse.compress, HALVES, SPARSE),
    "decompress": lambda given: sparse.decompress(given, np.zeros(32, np.uint32), SPARSE),
    "decompress, metadata": lambda given: sparse.decompress(np.zeros((16, 16), np.float16), given, SPARSE),
    "to_cutlass": lambda given: sparse.to_cutlass(given, SPARSE),
    "from_cutlass": lambda given: sparse.from_cutlass(given, SPARSE),
    "from_cutlass, shape": lambda given: sparse.from_cutlass(
        np.zeros(1024, np.uint8), SPARSE, shape=given, order="sm90"
    ),
    **{
        f"to_cutlass, {name}": lambda given, name=name: sparse.to_cutlass(
            np.zeros((4, 4, 32), np.uint32), SPARSE, **{"order": "sm90", name: given}
        )
        for name in ("order", "tile_k", "chosen")
    },
    "tiles": lambda given: sparse.tiles(given, SPARSE),
    "quantise": lambda given: microscaling.quantise(given, "mxfp4"),
    "quantise, kind": partial(microscaling.quantise, ONES),
    "quantise, axis": partial(microscaling.quantise, ONES, "mxfp4"),
    "quantise, block": lambda given: microscaling.quantise(ONES, "mxfp4", block=given),
    "quantise, rounding": lambda given: microscaling.quantise(ONES, "mxfp4", rounding=given),
    "to_blocked": layouts.to_blocked,
    "from_blocked": lambda given: layouts.from_blocked(given, 128, 4),
    "from_blocked, rows": lambda given: layouts.from_blocked(np.zeros(512), given, 4),
    "blocked_offset": lambda given: layouts.blocked_offset(given, 0, 4),
    "order_of_scales": lambda given: layouts.order_of_scales(given, BYTES),
    "dequantise": lambda given: microscaling.dequantise(given, np.ones((1, 1)), "mxfp4"),
    "tensor_scale": microscaling.tensor_scale,
    "scale_registers": lambda given: microscaling.scale_registers(given, SCALED, "a"),
    "scale_registers, role": partial(microscaling.scale_registers, BYTES, SCALED),
    "scale_registers, byte": partial(microscaling.scale_registers, BYTES, SCALED, "a"),
    "fragment, use": lambda given: wmma.fragment(given, 16, 16, 16, wmma.half),
    "fragment, m": lambda given: wmma.fragment(wmma.accumulator, given, 16, 16, float),
    "fragment, type": partial(wmma.fragment, wmma.accumulator, 16, 16, 16),
    "fragment, layout": partial(wmma.fragment, wmma.matrix_a, 16, 16, 16, wmma.half),
    "fill_fragment": lambda given: wmma.fill_fragment(accumulator(), given),
    "load_matrix_sync": lambda given: wmma.load_matrix_sync(accumulator(), given, 16, wmma.mem_row_major),
    "load_matrix_sync, ldm": lambda given: wmma.load_matrix_sync(
        accumulator(), wmma.pointer(FLOATS), given, wmma.mem_row_major
    ),
    "mma_sync, a": lambda given: wmma.mma_sync(accumulator(), given, accumulator(), accumulator()),
    "pointer": wmma.pointer,
    "pointer, index": partial(wmma.pointer, FLOATS),
    "float_to_tf32": wmma.float_to_tf32,
    "Layout": Layout,
    "Layout, size": lambda given: Layout("h g -> g h", h=given, g=2),
    "pack": FRAGMENT.pack,
    "unpack": FRAGMENT.unpack,
    "position": lambda given: FRAGMENT.position(given, 0),
    "holders": lambda given: FRAGMENT.holders(given, 0),
    "Descriptor": Descriptor,
    "Descriptor, swizzle": partial(Descriptor, 0, 16, 16),
    "Descriptor.decode": Descriptor.decode,
    "for_tile": lambda given: Descriptor.for_tile(given, 64, 64),
    "for_tile, mn": lambda given: Descriptor.for_tile("f16", given, 64),
    **{
        f"for_tile, {name}": lambda given, name=name: Descriptor.for_tile("f16", 64, 64, **{name: given})
        for name in ("swizzle", "start", "major", "atoms_along", "pitch")
    },
    "address": lambda given: TILE.address(given, 0, "f16"),
    "step": TILE.step,
    "explain": TILE.explain,
    "diagnose": lambda given: layouts.diagnose(given, "f16", 64, 64),
    "diagnose, mn": lambda given: layouts.diagnose(TILE, "f16", given, 64),
    "diagnose, tile": lambda given: layouts.diagnose(TILE, "f16", 64, 64, tile=given),
    "diagnose, shared": lambda given: layouts.diagnose(TILE, "f16", 64, 64, shared=given),
    "fit": lambda given: layouts.fit(given, "f16", 8, 8),
    "fit, mn": lambda given: layouts.fit((16, 2), "f16", given, 8),
    **{
        f"fit, {name}": lambda given, name=name: layouts.fit((16, 2), "f16", 8, 8, **{name: given})
        for name in ("major", "swizzle", "start")
    },
    "copy_tile": lambda given: layouts.copy_tile(given, SHARED, TILE),
    "copy_tile, shared": lambda given: layouts.copy_tile(np.zeros((64, 64), np.float16), given, TILE),
    "read_tile, shape": lambda given: layouts.read_tile(SHARED, TILE, given, "f16"),
    "read_tile, major": lambda given: layouts.read_tile(SHARED, TILE, (64, 64), "f16", given),
    "lookup": formats.lookup,
    "encode": formats.lookup("e4m3").encode,
    "decode": formats.lookup("e4m3").decode,
    "costs": costs,
    "find": lambda given: costs().find(given),
    "find, what": lambda given: costs().find(MMA, given),
    "find, how": lambda given: costs().find(MMA, "latency", given),
    "number_bits": lambda given: show.number_bits(given, 0),
    "number_bits, pattern": partial(show.number_bits, "f16"),
    "number_lines": show.number_lines,
    "number_lines, scale": partial(show.number_lines, ["e4m3"]),
    "number_ranges": show.number_ranges,
    "rounding": lambda given: show.rounding(given, 1.0),
    "rounding, number": partial(show.rounding, "e4m3"),
    "fragment_map": show.fragment_map,
    "fragment_map, lane": partial(show.fragment_map, FRAGMENT),
    "mma_map": show.mma_map,
    "changes": lambda given: show.changes(given, given),
    "descriptor": show.descriptor,
    "shared_tile": lambda given: show.shared_tile(given, "f16", 64, 64),
    "format_table": show.format_table,
    "arithmetic_table": show.arithmetic_table,
    "arithmetic_table, targets": partial(show.arithmetic_table, tcemu.parse(MMA)),
    "speed_table": show.speed_table,
    "speed_table, target": lambda given: show.speed_table(target=given),
    "register_bits": partial(show.register_bits, FRAGMENT.container),
    "fused_sum_of": lambda given: show.fused_sum_of(tcemu.parse(MMA), given, 0, 0),
    "Shape.read": Shape.read,
    "target_named": target_named,
    "compare": partial(compare, MMA),
    **{
        f"catalogue, {name}": lambda given, name=name: catalogue(**{name: given})
        for name in ("target", "ptx", "family", "type", "shape")
    },
}


def test_a_mistake_is_answered_by_an_error_that_can_be_read(row):
    for name, call in CALLS.items():
        with row(name):
            for wrong in some(WRONG, 6):
                if (wrong is None and name.startswith("catalogue")) or (callable(wrong) and name == "launch"):
                    continue  # all, and a kernel
                try:
                    call(wrong)
                except TcemuError as error:
                    message = str(error)
                    assert message
                    assert len(message) < 3000
                    assert "object at 0x" not in message or "object at 0x" in repr(wrong)


#: Answers that once were silent and wrong, and what is said now.
SILENT = {
    "a shape in other words": (lambda: Shape.read("x"), "a shape must be spelt as in an opcode, e.g. 'm16n8k16'"),
    "half of a descriptor": (lambda: Descriptor.decode(1.5), "a descriptor's 64 bits must be a whole number; got 1.5"),
    "a descriptor of more bits": (lambda: Descriptor.decode(1 << 64), "a descriptor must be an integer of 64 bits"),
    "an element before the first": (lambda: TILE.address(-1, 0, "f16"), "whole numbers of at least 0; got mn -1"),
    "a kernel of other arguments": (
        lambda: tcemu.launch(kernel, args=(1, 2)),
        "the kernel is called with the warp and then args=, which has 2 arguments: too many positional arguments",
    ),
    "arrays for numbers": (
        lambda: tcemu.launch(product, HALVES, HALVES),
        "got ndarray of shape (16, 32). The kernel's arguments are a tuple, args=: launch(product, grid=1, block=32",
    ),
    "arrays after the block": (
        lambda: tcemu.launch(product, 1, 32, HALVES, HALVES),
        "launch: too many positional arguments. The kernel's arguments are a tuple, args=: launch(product, grid=1",
    ),
    "an array for a tuple": (
        lambda: tcemu.launch(one_array, 1, 32, HALVES),
        "args=: launch(one_array, grid=1, block=32, args=(a,))",
    ),
    "no arguments": (
        lambda: tcemu.launch(product, 1, 32),
        "Its parameters are (warp, a, b): launch(product, grid=1, block=32, args=(a, b))",
    ),
    "the kernel's own keyword": (
        lambda: tcemu.launch(product, a=HALVES, b=HALVES),
        "launch: got an unexpected keyword argument 'a'. The kernel's arguments are a tuple, args=",
    ),
    "arrays of a search": (lambda: tcemu.search_schedules(product, HALVES, HALVES), "got ndarray of shape (16, 32)"),
    "another word": (lambda: tcemu.launch(kernel, smem=64), "keyword argument 'smem'. Did you mean 'shared'?"),
    "a misspelt word": (lambda: tcemu.launch(kernel, sahred=64), "'sahred'. Did you mean 'shared'?"),
    "a name for a list": (lambda: show.arithmetic_table(MMA, "sm_90"), "targets must be a list of names"),
    "observers": (lambda: tcemu.launch(kernel, observers=None), "observers must be a tuple of functions"),
}


def test_what_was_silent_or_numpys_is_told(row):
    for name, (call, words) in SILENT.items():
        with row(name):
            try:
                call()
            except TcemuError as error:
                told = str(error)
            assert words in told
