"""nvcuda::wmma of CUDA C++ in Python, bit for bit (CUDA C++ Programming Guide, Warp Matrix Functions).

Names, arguments and their order are those of C++. What does not compile in C++, is undefined or faults raises an error
that says why. A kernel in which each warp computes one tile of C = A B, for whole tiles:

>>> import numpy as np
>>> from tcemu import wmma
>>> def matmul(A, B, C, M, N, K, row, column):
...     a = wmma.fragment(wmma.matrix_a, 16, 16, 16, wmma.half, wmma.row_major)
...     b = wmma.fragment(wmma.matrix_b, 16, 16, 16, wmma.half, wmma.row_major)
...     acc = wmma.fragment(wmma.accumulator, 16, 16, 16, float)
...     wmma.fill_fragment(acc, 0)
...     for k in range(0, K, 16):
...         wmma.load_matrix_sync(a, A + (row * K + k), K)
...         wmma.load_matrix_sync(b, B + (k * N + column), N)
...         wmma.mma_sync(acc, a, b, acc)
...     wmma.store_matrix_sync(C + (row * N + column), acc, N, wmma.mem_row_major)
>>> A, B, C = np.ones((32, 48), np.float16), np.ones((48, 64), np.float16), np.zeros((32, 64), np.float32)
>>> pointers = [wmma.pointer(array) for array in (A, B, C)]
>>> for row in range(0, 32, 16):
...     for column in range(0, 64, 16):
...         matmul(*pointers, 32, 64, 48, row, column)
>>> C.min(), C.max()
(np.float32(48.0), np.float32(48.0))

Many warps at once: if `row` and `column` are arrays, so are the pointers, and each fragment holds one tile per warp.

What differs from C++: a pointer into an array is `wmma.pointer(array)`; `x` has all lanes, so that `x[:, i]` is C++'s
`x[i]`; and a fragment knows its architecture (`target=`, or `with wmma.target("sm_70"):`), on which its layout depends.
"""

from tcemu.wmma.elements import Elements
from tcemu.wmma.fragment import fill_fragment, fragment
from tcemu.wmma.memory import load_matrix_sync, store_matrix_sync
from tcemu.wmma.multiply import bmma_sync, float_to_tf32, mma_sync
from tcemu.wmma.names import (
    accumulator,
    bfloat16,
    col_major,
    double,
    experimental,
    half,
    matrix_a,
    matrix_b,
    mem_col_major,
    mem_row_major,
    precision,
    row_major,
    signed_char,
    unsigned_char,
)
from tcemu.wmma.pointer import pointer
from tcemu.wmma.target import DEFAULT_TARGET, target

float16 = half

__all__ = [
    "DEFAULT_TARGET",
    "Elements",
    "accumulator",
    "bfloat16",
    "bmma_sync",
    "col_major",
    "double",
    "experimental",
    "fill_fragment",
    "float16",
    "float_to_tf32",
    "fragment",
    "half",
    "load_matrix_sync",
    "matrix_a",
    "matrix_b",
    "mem_col_major",
    "mem_row_major",
    "mma_sync",
    "pointer",
    "precision",
    "row_major",
    "signed_char",
    "store_matrix_sync",
    "target",
    "unsigned_char",
]
