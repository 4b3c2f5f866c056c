"""Complete kernels that multiply matrices, from a simple one to a pipelined one: examples to read.

    wmma_global     wmma, without shared memory
    mma_pipeline    mma.sync with ldmatrix, fed by cp.async in 2 to 5 stages
    split_k         the same with several blocks per tile, each with its part of K
    mma_sparse      mma.sp on a pruned matrix
    wgmma_tma       wgmma fed by TMA, with producer and consumer warps and mbarriers, for every type
    wgmma_cluster   the same in clusters, whose blocks share multicast copies
    wgmma_stream    the same with the same number of steps for each block (stream-K)
    wgmma_persistent  the same with a list of tiles for each block: cooperative and ping-pong, with setmaxnreg
    wgmma_epilogue  the same with bias and activation, stored by stmatrix and TMA
    wgmma_sparse    the same with a pruned A
    tcgen05_tma     tcgen05.mma fed by TMA: sums in Tensor Memory, two accumulators in turn, alone or by pairs of blocks
    tcgen05_nvfp4   e2m1 with a scale for each 16 elements, scales copied to Tensor Memory by tcgen05.cp
    attention       fused attention: two products and a softmax between them
    attention_wgmma the same as FlashAttention-3 does it: wgmma, A from registers, softmax under products, causal
    tcgen05_attention the same in the manner of FlashAttention-4: scores, powers and output in Tensor Memory
    grouped_fp8     the experts of a layer: fp8 with a scale for each 128 elements, groups of different sizes
    paged_decode    attention of one new query of each sequence, keys in pages, grouped heads as rows of mma.sync
    w4a16           weights of 4 bits, made f16 in registers by a magic number, group scales, mma.sync
    side_by_side    the source of a kernel in Python and in CUDA C++, in tabs
    twins, shipped  the same kernels in CUDA C++, on the GPU of this machine
    explorers       sliders that launch them
    scalar          what a kernel computes outside the tensor core

Each module has a `kernel`, which is what a learner would write, and a function that launches it: `multiply`, or
`attend`. Each kernel gives the same bits as its twin; a plain product also gives the bits of tcemu.matmul.
"""

import os
from pathlib import Path

from tcemu.gemm import (
    attention,
    attention_wgmma,
    explorers,
    grouped_fp8,
    mma_pipeline,
    mma_sparse,
    paged_decode,
    shipped,
    split_k,
    tcgen05_attention,
    tcgen05_nvfp4,
    tcgen05_tma,
    twins,
    w4a16,
    wgmma_cluster,
    wgmma_epilogue,
    wgmma_persistent,
    wgmma_sparse,
    wgmma_stream,
    wgmma_tma,
    wmma_global,
)
from tcemu.gemm.side_by_side import side_by_side
from tcemu.machine import scalar, sites

__all__ = [
    "attention",
    "attention_wgmma",
    "explorers",
    "grouped_fp8",
    "mma_pipeline",
    "mma_sparse",
    "paged_decode",
    "scalar",
    "shipped",
    "side_by_side",
    "split_k",
    "tcgen05_attention",
    "tcgen05_nvfp4",
    "tcgen05_tma",
    "twins",
    "w4a16",
    "wgmma_cluster",
    "wgmma_epilogue",
    "wgmma_persistent",
    "wgmma_sparse",
    "wgmma_stream",
    "wgmma_tma",
    "wmma_global",
]

#: Reports name lines of these modules, as they name those of any kernel.
sites.KERNELS.append(f"{Path(__file__).parent}{os.sep}")
