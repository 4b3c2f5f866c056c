"""What a launch runs as compiled code beside the sums of `tcemu.kernels`: lanes of PTX kernels, and shadow memory.

warp, access    LLVM's text of an operation of a warp's lanes, of a load and a store
value           a vector of lanes in that text
context         what that code and its executor share
compiled        from such text to the address of a function, and the cache of what was compiled
shadow          the sanitizer's shadow memory: compares and sets marks of one access
batches         the same for the log of a warp: many accesses in one call
"""

__all__ = ["access", "batches", "compiled", "context", "shadow", "value", "warp"]
