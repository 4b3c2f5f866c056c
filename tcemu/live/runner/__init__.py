"""Running one instruction on the GPU: the kernel that has it, the launch, the answer, and its comparison."""

__all__ = ["answers", "call", "compare", "cuda", "families", "kernel", "operands", "run"]
