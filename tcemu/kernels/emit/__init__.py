"""The only place that makes LLVM for sums: vectors, and what numba lacks for single numbers."""

__all__ = ["code", "lanes"]
