"""Your GEMM: ten kernels, each made from the one before, in Python or CUDA C++."""

__all__: list[str] = []
