"""Fast twins of the plain-Python semantics: numpy, numba and a file lock only, arrays and scalars in, arrays out.

They define nothing: tcemu.arithmetic and tcemu.layouts say what the numbers mean, and tests check that both agree.
"""

__all__ = [
    "announce", "blocks", "calls", "dots", "f64", "fused", "groups",
    "marks", "matmul", "matmul_exact", "matmul_fused", "matmul_plain", "memory", "moves", "packing",
    "picks", "places", "products", "registers", "rooms", "scaled", "sharing", "simd", "sums", "threads",
    "tiles", "vectors",
]  # fmt: skip
