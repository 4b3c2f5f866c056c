"""Your GEMM: ten kernels, each from the one before, in Python or CUDA C++."""
