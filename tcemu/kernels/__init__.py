"""Fast twins of the plain-Python semantics: numpy, numba and a file lock only, arrays and scalars in, arrays out.

They define nothing: tcemu.arithmetic and tcemu.layouts say what the numbers mean, and tests check that both agree.
README.md is the map: which file answers which question.
"""

__all__ = ["batch", "chains", "emit", "exact", "f64", "host", "integers", "matrix", "sums"]
