"""CUDA C++ without a GPU: NVRTC compiles it, and the kernels run on the machine."""
