"""What people type at a warp before they know its methods: mnemonics, plain words, and the names of CuTe and Triton.

As in other_names.py, the code of a row is complete except for its operands, and a test executes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

_MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
_WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
_LDMATRIX = "warp.run('ldmatrix.sync.aligned.m8n8.x4.shared.b16', addresses), (32,): in lane i that of row i, 16 bytes"
_MULTIPLY = f"warp.run('{_MMA}', a, b, c), whose operands are registers: a (32, 4), b (32, 2), c and the result (32, 4)"
_SPARSE = (
    "warp.run('mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32', a, b, c, metadata, 0), whose "
    "operands are registers: tcemu.sparse.compress(dense, opcode) makes a and the metadata"
)
_GROUP = (
    f"warp.wgmma_fence(), warp.run('{_WGMMA}', d, a, b, 1, 1, 1, 0, 0), warp.wgmma_commit_group() and "
    "warp.wgmma_wait_group(0)"
)
_WARPGROUP = f"{_GROUP}: d is registers (32, 4), a and b are tcemu.layouts.Descriptor"
_LOAD = "warp.ld_shared(address) or warp.ld_global(pointer)"
_STORE = "warp.st_shared(address, value) or warp.st_global(pointer, value)"
_MAP = "in the kernel, tensor_map = tcemu.machine.tensor_map.TensorMap.of(pointer, box)"
_TMA_IN = (
    "warp.mbarrier_arrive_expect_tx(mbarrier, size), warp.cp_async_bulk_tensor_shared_global(destination, tensor_map, "
    f"coordinates, mbarrier) and warp.mbarrier_wait(mbarrier, parity): {_MAP}"
)
_TMA_OUT = (
    "warp.cp_async_bulk_tensor_global_shared(tensor_map, coordinates, address), warp.cp_async_bulk_commit_group() and "
    f"warp.cp_async_bulk_wait_group(0): {_MAP}"
)
_BULK = (
    "warp.cp_async_bulk_shared_global(destination, source, size, mbarrier), or with a tensor map "
    "warp.cp_async_bulk_tensor_shared_global(destination, tensor_map, coordinates, mbarrier)"
)
STAGES = "warp.cp_async(destination, source, 16), warp.cp_async_commit_group() and warp.cp_async_wait_group(pending)"
_WAITS = (
    "warp.cp_async_wait_group(pending), warp.cp_async_bulk_wait_group(pending), warp.wgmma_wait_group(pending) or "
    "warp.mbarrier_wait(mbarrier, parity)"
)
_COMMITS = "warp.cp_async_commit_group(), warp.cp_async_bulk_commit_group() or warp.wgmma_commit_group()"
SHARED = "warp.ld_shared(address) and warp.st_shared(address, value); launch(..., shared=bytes) allocates it"
_GLOBAL = (
    "warp.ld_global(pointer) and warp.st_global(pointer, value): each array of args= is a pointer, with "
    "pointer.at(index)"
)
_GRID = (
    "warp.bar_sync(); in one thread warp.red_global('add.u32', counter, 1, order='release') and a loop over "
    "warp.ld_global(counter, order='acquire'); then warp.bar_sync() again"
)
_NUMPY = "an expression of numpy: values + values, or values.view(np.float32) * 2"

#: What to write, and the names for which people write it.
_ROWS: tuple[tuple[str, str], ...] = (
    (_LDMATRIX, "ldmatrix load_matrix ldsm ldmatrix_x1 ldmatrix_x2 ldmatrix_x4 ldmatrix_sync"),
    ("warp.run('stmatrix.sync.aligned.m8n8.x4.shared.b16', addresses, a), (32,) and registers (32, 4)",
     "stmatrix store_matrix stsm"),
    ("warp.run('movmatrix.sync.aligned.m8n8.trans.b16', a), with registers a (32, 1)", "movmatrix transpose"),
    (_MULTIPLY, "mma mma_m16n8k16 matmul gemm dot tensor_core hmma imma tl_dot"),
    (_SPARSE, "mma_sp sparse_mma"),
    (_WARPGROUP, "wgmma wgmma_mma_async wgmma_async wgmma_mma warpgroup_mma gmma hgmma gemm_ss gemm_rs warpgroup_dot"),
    ("warp.wgmma_fence()", "warpgroup_arrive warpgroup_fence"),
    ("warp.wgmma_commit_group()", "warpgroup_commit_batch"),
    ("warp.wgmma_wait_group(pending)", "warpgroup_wait"),
    ("warp.setmaxnreg('inc', 240) or warp.setmaxnreg('dec', 24)",
     "warpgroup_reg_alloc warpgroup_reg_dealloc reg_alloc reg_dealloc"),
    ("warp.tcgen05_mma(kind, d, a, b, idesc, enable_input_d)", "tcgen05 umma utcmma mma_sm100"),
    ("warp.tcgen05_alloc(address, n_columns)", "tmem tmem_alloc allocate_tmem tensor_memory"),
    ("warp.tcgen05_ld(taddr, '32x32b.x8') and warp.tcgen05_wait_ld()", "tmem_load tmem_ld load_tmem"),
    ("warp.tcgen05_st(taddr, values, '32x32b.x8') and warp.tcgen05_wait_st()", "tmem_store tmem_st store_tmem"),
    ("warp.tcgen05_commit(mbarrier)", "umma_arrive tcgen05_commit_group umma_commit"),
    (_LOAD, "load ld read lds ldg tl_load copy"),
    (_STORE, "store st write sts stg tl_store"),
    ("warp.atom_global('add.u32', address, value) or warp.red_global('add.u32', address, value)", "atom red atomic"),
    (SHARED, "smem shared_memory shared_mem sharedmem alloc_shared"),
    (_GLOBAL, "gmem global_memory global_mem"),
    ("warp.registers(4, fill=0)", "fragment_c accumulator zeros regs"),
    (_TMA_IN, "tma tma_load tma_copy load_tma tma_load_2d tma_load_multicast descriptor_load"),
    (_TMA_OUT, "tma_store tma_reduce store_tma tma_store_2d descriptor_store"),
    ("warp.fence_proxy_async()", "tma_store_fence fence_view_async_shared fence_async_shared proxy_fence"),
    ("warp.cp_async_bulk_commit_group()", "tma_store_arrive"),
    ("warp.cp_async_bulk_wait_group(pending)", "tma_store_wait"),
    (_BULK, "cp_async_bulk bulk_copy cp_async_bulk_tensor"),
    (STAGES, "async_copy copy_async cp_async_ca cp_async_cg cp_async_fence"),
    (_WAITS, "wait wait_group wait_all"),
    (_COMMITS, "commit commit_group"),
    ("warp.mbarrier_init(mbarrier, count)", "initialize_barrier init_barrier barrier_init"),
    ("warp.mbarrier_arrive_expect_tx(mbarrier, size)", "set_barrier_transaction_bytes expect_tx arrive_and_expect_tx"),
    ("warp.mbarrier_wait(mbarrier, parity)", "wait_barrier barrier_wait mbarrier_wait_parity"),
    ("warp.mbarrier_arrive(mbarrier)", "arrive_barrier barrier_arrive arrive"),
    ("warp.bar_sync() for the block, or warp.bar_warp_sync() for the warp",
     "sync barrier_sync bar debug_barrier synchronize thread_barrier"),
    ("warp.bar_warp_sync()", "warp_sync warpsync"),
    ("warp.bar_sync()", "block_sync sync_block sync_all"),
    ("warp.barrier_cluster_arrive() and warp.barrier_cluster_wait()", "cluster_sync sync_cluster cluster_barrier"),
    (_GRID, "grid_sync sync_grid grid_barrier"),
    ("warp.griddepcontrol('wait')",
     "grid_dependency_wait griddepcontrol_wait pdl_wait gdc_wait grid_dependency_synchronize griddep_wait"),
    ("warp.griddepcontrol('launch_dependents')",
     "launch_dependents griddepcontrol_launch_dependents pdl_launch gdc_launch_dependents trigger_programmatic_launch"),
    ("tcemu.parse(opcode).fragments['a'].pack(matrix), outside a kernel; inside, warp.ld_global(pointer)",
     "pack packed pack_fragment fragment_pack"),
    ("warp.st_global(pointer, value); tcemu.parse(opcode).fragments['d'].unpack(registers), outside a kernel",
     "unpack unpacked unpack_fragment fragment_unpack"),
    ("np.arange(32), or warp.laneid and warp.threads", "arange iota"),
    ("warp.ctaid, (x, y, z)", "block_id blockid program_id"),
    ("warp.tid, arrays x, y and z (32,); warp.threads numbers the threads of the block", "thread_id threadid"),
    ("warp.warpid", "warp_idx"),
    ("warp.nwarpid", "num_warps n_warps"),
    ("warp.ntid, (x, y, z)", "num_threads nthreads"),
    ("warp.nctaid, (x, y, z)", "num_blocks num_ctas num_programs"),
    ("warp.shfl_sync('idx', values, lane)", "shfl shuffle shfl_idx broadcast"),
    ("warp.vote_sync('ballot', predicate)", "ballot vote"),
    ("warp.vote_sync('any', predicate)", "any"),
    ("warp.vote_sync('all', predicate)", "all"),
    ("warp.redux_sync('add.u32', values)", "reduce redux sum warp_reduce"),
    ("warp.elect_sync()", "elect elect_one elect_one_thread"),
    ("warp.only(predicate)", "where mask if_ predicate"),
    (_NUMPY, "add sub mul mad fma exp max min"),
    ("print(values)", "print log"),
    ("warp.run('redux.sync.add.u32', values): the opcode, then the operands", "ptx inline_ptx execute call issue"),
)  # fmt: skip


def plain(name: str) -> str:
    """A name without underscores, in small letters: block_idx and blockIdx are one."""
    return name.replace("_", "").lower()


def by_plain_name(names: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """What to write, by the plain form of a name."""
    return MappingProxyType({plain(name): instead for name, instead in names})


WORDS = by_plain_name((name, instead) for instead, names in _ROWS for name in names.split())
