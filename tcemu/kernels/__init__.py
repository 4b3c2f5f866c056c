"""Fast twins of the plain-Python semantics: numpy, numba and a file lock only, arrays and scalars in, arrays out.

No meaning lives here: what the numbers stand for is said in tcemu.arithmetic and tcemu.layouts, and tests hold both
equal.
"""

__all__ = [
    "announce", "binary64", "blocks", "fused", "groups", "integer", "matmul", "matmul_exact", "matmul_fused",
    "matmul_plain", "memory", "registers", "scaled", "simd", "sums", "tiles", "vectors",
]  # fmt: skip
