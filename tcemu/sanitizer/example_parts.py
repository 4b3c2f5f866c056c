"""What the kernels of examples.py share: their table, two tiles, and what several of them begin or end with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tcemu.layouts import Descriptor
from tcemu.machine import sites

# The lines of this file are lines of kernels, which reports name.
sites.KERNELS.append(__file__)

#: Global memory that a kernel may use, and shared memory that it is launched with.
BYTES, SHARED = 1 << 15, 8192

MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
#: The operands of MMA after the descriptors: scale-d, imm-scale-a, imm-scale-b, imm-trans-a, imm-trans-b.
ORDINARY = (1, 1, 1, 0, 0)
#: A (64 x 16) and B (16 x 8) of f16 in shared memory, without a swizzle.
TILES = (
    Descriptor.for_tile("f16", 64, 16, swizzle=0),
    Descriptor.for_tile("f16", 8, 16, swizzle=0, start=2048),
)


@dataclass(frozen=True)
class Example:
    """A kernel that breaks one rule, and how it is launched.

    >>> from tcemu.sanitizer.examples import EXAMPLES
    >>> EXAMPLES["lane-race"].kernel.__name__
    'lanes_swap_without_a_sync'
    """

    kernel: Callable[..., None]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def launch(self) -> Mapping[str, Any]:
        """What tcemu.launch gets besides the kernel and its argument."""
        return {"block": 128, "shared": SHARED, **self.options}


_EXAMPLES: dict[str, Example] = {}
#: By the rule's id.
EXAMPLES: Mapping[str, Example] = MappingProxyType(_EXAMPLES)


def breaks(rule: str, **options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Put a kernel into the table: it breaks this rule if it is launched with these options."""

    def add(kernel: Callable[..., None]) -> Callable[..., None]:
        _EXAMPLES[rule] = Example(kernel, options)
        return kernel

    return add


def fill(warp: Any) -> None:
    """The threads of a warpgroup store both tiles."""
    warp.st_shared(16 * warp.threads, 0, "v4.b32")
    with warp.only(warp.threads < 16):
        warp.st_shared(2048 + 16 * warp.threads, 0, "v4.b32")


def ready(warp: Any) -> None:
    """Both tiles, stored, fenced for the async proxy, and behind a barrier."""
    fill(warp)
    warp.fence_proxy_async()
    warp.bar_sync()


def finish(warp: Any) -> None:
    """Commit, and wait for everything."""
    warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)


def barrier(warp: Any, address: int, count: int = 1) -> None:
    """One lane initialises an mbarrier, and tells everybody."""
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.mbarrier_init(address, count)
            warp.fence_mbarrier_init()
    warp.bar_sync()
