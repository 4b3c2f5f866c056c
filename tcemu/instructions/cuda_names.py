"""What CUDA C++, CUTLASS and CuTe call PTX's instructions; the beginning of the opcode, or the whole opcode of an atom.

The names are those of the CUDA programming guide, of libcu++ and of CUTLASS 4 (cute/arch, cutlass/arch).
"""

from __future__ import annotations

import re
from functools import cache

#: Words of CUDA C++ that people write as qualifiers: __shfl_xor_sync, cuda::thread_scope_device, memory_order_seq_cst.
WORDS = {"xor": "bfly", "block": "cta", "device": "gpu", "system": "sys", "seq_cst": "sc"}
_TENSOR = "cp.async.bulk.tensor"
#: The last part of a name, as a regular expression in lower case, and how the opcode begins.
_NAMES = {
    r"_*syncthreads": "bar.sync",
    r"__syncthreads_(and|or|count)": "bar.red",
    r"_*syncwarp": "bar.warp.sync",
    r"namedbarrier|arrive_and_wait|bar_sync": "bar.sync",
    r"__shfl(_sync)?|shfl_sync": "shfl.sync",
    r"__shfl_(up|down)(_sync)?": r"shfl.sync.\1",
    r"__shfl_xor(_sync)?": "shfl.sync.bfly",
    r"__(ballot|any|all)(_sync)?": r"vote.sync.\1",
    r"__match_(any|all)_sync": r"match.\1.sync",
    r"__reduce_(add|min|max|and|or|xor)_sync": r"redux.sync.\1",
    r"__activemask": "activemask",
    r"(cute::)?elect_one_sync": "elect.sync",
    r"__threadfence(_block|_system)?|atomic_thread_fence": "fence",
    r"__nanosleep": "nanosleep",
    r"atomic(add|sub|exch|min|max|inc|dec|cas|and|or|xor)(_block|_system)?|atomic(_ref)?": "atom",
    r"__ld(g|ca|cg|cs|lu|cv)": "ld.global",
    r"__st(wb|cg|cs|wt)": "st.global",
    r"mma_sync|bmma_sync": "wmma.mma",
    r"load_matrix_sync": "wmma.load",
    r"store_matrix_sync": "wmma.store",
    r"ldsm|ldmatrix_\w+": "ldmatrix",
    r"stsm": "stmatrix",
    r"__pipeline_memcpy_async|memcpy_async|cp_async(_zfill)?|sm80_cp_async_cache(always|global)(_zfill)?": "cp.async",
    r"__pipeline_commit|producer_commit|cp_async_fence": "cp.async.commit_group",
    r"__pipeline_wait_prior|consumer_wait|cp_async_wait": "cp.async.wait_group",
    r"tma(_load|_store)?|sm90_tma_(load|store|reduce)\w*|utma(ldg|stg)|cp_async_bulk_tensor\w*": _TENSOR,
    r"(sm90_)?bulk_copy\w*|sm90_bulk_copy\w*|cp_async_bulk|ublkcp": "cp.async.bulk",
    r"tma_store_arrive": "cp.async.bulk.commit_group",
    r"tma_store_wait": "cp.async.bulk.wait_group",
    r"tma_store_fence|fence_view_async_shared|fence_proxy_async": "fence.proxy",
    r"fence_barrier_init": "fence.mbarrier_init",
    r"warpgroup_arrive|warpgroup_fence_operand": "wgmma.fence",
    r"warpgroup_commit_batch": "wgmma.commit_group",
    r"warpgroup_wait": "wgmma.wait_group",
    r"warpgroup_reg_(alloc|dealloc)": "setmaxnreg",
    r"barrier_arrive_tx|arrive_tx|barrier_expect_tx|arrive_and_expect_tx": "mbarrier.arrive.expect_tx",
    r"barrier|(cluster|clustertransaction)barrier|__mbarrier\w*": "mbarrier",
    r"cluster(_sync)?|this_cluster|cluster_(arrive|wait)(_relaxed)?": "barrier.cluster",
    r"map_shared_rank|set_block_rank": "mapa",
    r"cudagriddependencysynchronize|wait_on_dependent_grids": "griddepcontrol.wait",
    r"cudatriggerprogrammaticlaunchcompletion|launch_dependent_grids": "griddepcontrol.launch_dependents",
    r"(hm|im|bm|dm|qm|om)ma": "mma.sync",
    r"(hg|ig|qg|bg)mma|gmma|warpgroup": "wgmma",
}  # fmt: skip
_TYPE = "TF32|BF16|F64|F32|F16|E4M3|E5M2|E3M2|E2M3|E2M1|S32|S8|U8|S4|U4|U1"
#: An atom of CuTe that multiplies: SM80_16x8x16_F32F16F16F32_TN, SM90_64x128x16_F32F16F16_SS<...>.
_MMA = re.compile(rf"(?:SM(\d+)_|MMA_)(\d+)x(\d+)x(\d+)_((?:{_TYPE})+)(?:_([TN][TN]|SS|RS))?(_\w+)?", re.IGNORECASE)
#: An atom that loads or stores matrices: SM75_U16x8_LDSM_T moves eight halves of a lane.
_MATRICES = re.compile(r"SM\d+_U(16|32)x(\d)_(LD|ST)SM_([NT])", re.IGNORECASE)


@cache
def opcode_of(name: str) -> str:
    """How the opcode of an instruction begins that CUDA C++ or CuTe calls so; empty for any other name.

    >>> from tcemu.instructions.cuda_names import opcode_of
    >>> opcode_of("__syncthreads()"), opcode_of("nvcuda::wmma::mma_sync"), opcode_of("mma.sync")
    ('bar.sync', 'wmma.mma', '')
    >>> opcode_of("SM80_16x8x16_F32BF16BF16F32_TN")
    'mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32'
    >>> opcode_of("cute::SM75_U16x8_LDSM_T")
    'ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16'
    """
    bare = re.split(r"[(<;]", name[:200].strip())[0].strip()
    last = re.split(r"::", bare)[-1]
    atom, matrices = _MMA.fullmatch(last), _MATRICES.fullmatch(last)
    if atom:
        return _product(atom)
    if matrices:
        width, count, way, layout = matrices.groups()
        number = int(count) // (2 if width == "16" else 1)
        trans = ".trans" if layout.upper() == "T" else ""
        return f"{way.lower()}matrix.sync.aligned.m8n8.x{number}{trans}.shared.b16"
    matches = ((re.fullmatch(pattern, last.lower()), start) for pattern, start in _NAMES.items())
    return next((match.expand(start) for match, start in matches if match), "")


def _product(atom: re.Match[str]) -> str:
    _, m, n, k, spelt, layout, more = atom.groups()
    types = [{"u1": "b1"}.get(each, each) for each in (word.lower() for word in re.findall(_TYPE, spelt.upper()))]
    shape, suffix = f"m{m}n{n}k{k}", (more or "").upper()
    sat = ".satfinite" if "SATURATE" in suffix else ""
    op = next((f".{word.lower()}.popc" for word in ("XOR", "AND") if word in suffix), "")
    if m == "64":
        return f"wgmma.mma_async.sync.aligned.{shape}{sat}.{'.'.join(types)}{op}"
    sides = (layout or "TN").upper()
    rows = ("row" if sides[0] == "T" else "col"), ("row" if sides[1] == "T" else "col")
    return f"mma.sync.aligned.{shape}.{'.'.join(rows)}{sat}.{'.'.join(types)}{op}"
