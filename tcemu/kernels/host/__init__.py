"""What kernels need from the machine: compiling, threads, and memory; nothing here computes."""

__all__ = ["compiling", "memory", "threads"]
