"""What people type at a warp before they know its methods."""

import re

import numpy as np
import pytest

from tcemu import Warp, launch, parse
from tcemu.errors import UnknownName
from tcemu.layouts import Descriptor
from tcemu.machine.plain_names import WORDS, plain
from tcemu.machine.tensor_map import TensorMap

#: A word, and what the answer must contain.
TYPED = [
    ("ldmatrix", "warp.run('ldmatrix.sync.aligned.m8n8.x4.shared.b16', addresses)"),
    ("mma", "warp.run('mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32', a, b, c)"),
    ("load", "warp.ld_shared(address) or warp.ld_global(pointer)"),
    ("store", "warp.st_shared(address, value)"),
    ("block_idx", "warp.ctaid"),
    ("block_idx_x", "warp.ctaid"),
    ("threadIdx_x", "warp.tid"),
    ("tma_load", "warp.cp_async_bulk_tensor_shared_global(destination, tensor_map, coordinates, mbarrier)"),
    ("wgmma", "warp.run('wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16', d, a, b, 1, 1, 1, 0, 0)"),
    ("wgmma_mma_async", "warp.wgmma_fence()"),
    ("sync", "warp.bar_sync()"),
    ("sync_threads", "warp.bar_sync()"),
    ("shfl", "warp.shfl_sync("),
    ("atomic_add", "warp.atom_global('add.u32'"),
    ("umma", "warp.tcgen05_mma(kind, d, a, b, idesc, enable_input_d)"),
    ("grid_sync", "warp.red_global('add.u32', counter, 1, order='release')"),
    ("pdl_wait", "warp.griddepcontrol('wait')"),
    ("launch_dependents", "warp.griddepcontrol('launch_dependents')"),
    ("tmem_alloc", "warp.tcgen05_alloc(address, n_columns)"),
    ("arange", "np.arange(32)"),
    ("pack", "fragments['a'].pack(matrix), outside a kernel"),
    ("unpack", "fragments['d'].unpack(registers), outside a kernel"),
    ("wgmma_async", "warp.wgmma_fence()"),
    ("lane_id", "Did you mean 'laneid'?"),
    ("tensormap_replace", "warp.run('tensormap.replace."),
    ("mbarrier_pending_count", "warp.run('mbarrier.pending_count.b64', ...), with the operands that `tcemu isa"),
    ("griddep_control", "Did you mean 'griddepcontrol'?"),
    ("zzz", "a warp has no zzz. dir(warp) lists its names; warp.run(opcode, operands) executes every other"),
]


def test_a_word_that_everybody_tries_gives_the_name_and_an_example(row):
    def body(warp):
        for name, says in TYPED:
            with row(name), pytest.raises(UnknownName, match=re.escape(says)):
                getattr(warp, name)

    launch(body)


def test_no_row_hides_a_method_and_each_name_has_one_row():
    methods = {plain(name) for name in dir(Warp) if not name.startswith("_")}
    assert not methods & set(WORDS)


MMA, SPARSE = (
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
)
#: Registers of an operand, by a word of the code.
REGISTERS = {MMA: {"a": 4, "b": 2, "c": 4}, SPARSE: {"a": 4, "b": 4, "c": 4}, "movmatrix": {"a": 1}}
#: What all four warps of a warpgroup execute.
TOGETHER = re.compile(r"wgmma|setmaxnreg|warp\.bar_sync|cluster")
#: What one lane executes.
ALONE = re.compile(r"mbarrier|bulk")
CODE = re.compile(r"\b(?:warp|np|values)(?:\.\w+)*(?:\((?:[^()]|\([^()]*\))*\))?(?: \+ values| \* 2)?")


def operands(warp, pointer, tensor_map, code):
    sizes = next((each for word, each in REGISTERS.items() if word in code), {"a": 4, "b": 4, "c": 4})
    made = {name: np.zeros((32, count), np.uint32) for name, count in sizes.items()}
    if "wgmma" in code:
        made |= {"d": warp.registers(4, fill=0), "a": Descriptor.for_tile("f16", 64, 16), "b": Descriptor(0, 128, 128)}
    near = "global" not in code
    return {
        "warp": warp, "np": np, "address": 0 if near else int(pointer), "pointer": int(pointer), "source": int(pointer),
        "counter": int(pointer),
        "destination": 0, "size": 512, "mbarrier": 4096, "count": 1, "parity": 0, "pending": 0, "value": 3,
        "addresses": 16 * warp.laneid,
        "values": warp.laneid, "predicate": warp.laneid < 4, "lane": 0, "coordinates": (0, 0),
        "tensor_map": tensor_map, "metadata": np.full(32, 0x44444444, np.uint32), **made,
    }  # fmt: skip


def kernel(warp, pointer, image, codes):
    tensor_map = TensorMap.of(image, (8, 16))
    with warp.only((warp.laneid == 0) & (warp.warpid == 0)):
        warp.mbarrier_init(4096, 1)
        warp.fence_mbarrier_init()
        if not any("expect_tx" in code for code in codes):
            warp.mbarrier_arrive(4096)
    warp.bar_sync()
    for code in codes:
        if warp.warpid == 0 or TOGETHER.search(code):
            with warp.only((warp.laneid == 0) | (not ALONE.search(code) or bool(TOGETHER.search(code)))):
                eval(code, operands(warp, pointer, tensor_map, code))  # noqa: S307 - the rows are the package's


def test_the_code_of_each_row_runs(row):
    for instead in dict.fromkeys(WORDS.values()):
        codes = [code for code in CODE.findall(instead) if "." in code or "(" in code]
        with row(instead):
            assert codes or instead == "print(values)"
            if "tcgen05" in instead:  # test_tcgen05.py runs these on Tensor Memory that it has allocated
                assert all(hasattr(Warp, name) for name in re.findall(r"warp\.(\w+)", instead))
                continue
            args = np.zeros(512, np.uint32), np.zeros((8, 32), np.float32), codes
            launch(kernel, 1, 128, args, shared=8192, sanitizer="off")


def test_each_opcode_of_a_row_is_legal():
    opcodes = {opcode for instead in WORDS.values() for opcode in re.findall(r"warp\.run\('([^']+)'", instead)}
    assert len(opcodes) > 4
    assert all(parse(opcode).opcode == opcode for opcode in opcodes)
