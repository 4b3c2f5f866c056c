"""Names from CUDA C++ and from older versions, for which a warp names what a kernel writes here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tcemu.errors import UnknownName, did_you_mean

if TYPE_CHECKING:
    from tcemu.machine.warp import Warp

#: By name: what to write.
OTHERS = {
    "threadIdx": "warp.tid, arrays x, y and z (32,); warp.threads numbers the threads of the block",
    "blockIdx": "warp.ctaid, (x, y, z)",
    "blockDim": "warp.ntid, (x, y, z)",
    "gridDim": "warp.nctaid, (x, y, z)",
    "warpSize": "32",
    "__syncthreads": "warp.bar_sync()",
    "syncthreads": "warp.bar_sync()",
    "__syncwarp": "warp.bar_warp_sync()",
    "syncwarp": "warp.bar_warp_sync()",
    "__threadfence": "warp.fence()",
    "__shfl_sync": "warp.shfl_sync('idx', values, lane)",
    "__shfl_down_sync": "warp.shfl_sync('down', values, delta)",
    "__shfl_up_sync": "warp.shfl_sync('up', values, delta)",
    "__shfl_xor_sync": "warp.shfl_sync('bfly', values, mask)",
    "__ballot_sync": "warp.vote_sync('ballot', predicate)",
    "__any_sync": "warp.vote_sync('any', predicate)",
    "__all_sync": "warp.vote_sync('all', predicate)",
    "atomicAdd": "warp.red_global('add.u32', address, value), or warp.atom_global to get the old value",
    "shared": "warp.ld_shared(address) and warp.st_shared(address, value); launch(..., shared=bytes) allocates it",
    "block": "warp.ctaid",
    "grid": "warp.nctaid",
    "block_shape": "warp.ntid",
    "thread": "warp.tid",
    "lanes": "warp.laneid",
    "lane": "warp.laneid",
    "index": "warp.warpid",
}


def missing(self: Warp, name: str) -> Any:
    """Raise UnknownName for a name that a warp does not have, with the one that is meant."""
    if name in OTHERS:
        raise UnknownName(f"a warp has no {name} here; write {OTHERS[name]}")
    known = [each for each in dir(self) if not each.startswith("_")]
    raise UnknownName(f"a warp has no {name}.{did_you_mean(name, known)}")
