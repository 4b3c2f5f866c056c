"""The kernel that notebook 14 shows but does not run: it multiplies, and breaks no rule."""

import re

import nbformat
import numpy as np
from places import ROOT

import tcemu

#: The small functions that the notebook leaves to its reader.
SMALL = r"""
#include <cstdint>
struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };
__device__ inline uint32_t shared(const void* place) { return (uint32_t)__cvta_generic_to_shared(place); }
__device__ inline void init(uint64_t* bar, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared(bar)), "r"(arrivals) : "memory");
}
__device__ inline void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void arrive_expect_tx(uint64_t* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(bar)), "r"(bytes) : "memory");
}
__device__ inline void copy_tile(void* to, const CUtensorMap* map, uint64_t* bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], "
                 "[%3];" ::"r"(shared(to)), "l"(map), "r"(0), "r"(shared(bar)) : "memory");
}
__device__ inline void wait(uint64_t* bar, uint32_t parity) {
    uint32_t done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared(bar)), "r"(parity) : "memory");
}
__device__ inline uint64_t descriptor(const void* tile) {  // 128-byte swizzle, SBO 1024 bytes
    return (shared(tile) & 0x3FFFF) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 46 | 2ull << 61;
}
"""


def test_the_kernel_of_notebook_14_multiplies_and_breaks_no_rule(nvrtc, tmp_path):
    cells = nbformat.read(ROOT / "notebooks" / "14_outlook.ipynb", as_version=4).cells
    (kernel,) = re.findall(r"```cpp\n(__global__ .*?)```", "\n".join(cell.source for cell in cells), re.DOTALL)
    file = tmp_path / "one_tile.cu"
    file.write_text(SMALL + kernel, encoding="utf-8")
    rng = np.random.default_rng(14)
    a, b = (rng.integers(-4, 5, (128, 64)).astype(np.float16) for _ in range(2))
    d = np.zeros((128, 128), np.float32)
    maps = [tcemu.tensor_map(each, (64, 128), swizzle=128) for each in (a, b)]
    one_tile = tcemu.cuda.compile(file, "sm_100a")["one_tile"]
    result = one_tile(1, 128, *maps, d, shared=2 * 128 * 128, sanitizer="collect")
    assert result.reports == []
    assert np.array_equal(d, a.astype(np.float32) @ b.astype(np.float32).T)
