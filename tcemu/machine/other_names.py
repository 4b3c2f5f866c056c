"""Names from CUDA C++; the error for each says what to write instead.

The code that a row suggests is complete except for its operands, which have the same names in all rows: address, value,
mask and so on. A test executes the code of each row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tcemu.errors import UnknownName, did_you_mean
from tcemu.instructions import FAMILIES
from tcemu.machine.plain_names import SHARED, STAGES, WORDS, by_plain_name, plain

_INDICES: dict[str, str] = {
    "threadIdx": "warp.tid, arrays x, y and z (32,); warp.threads numbers the threads of the block",
    "blockIdx": "warp.ctaid, (x, y, z)",
    "blockDim": "warp.ntid, (x, y, z)",
    "gridDim": "warp.nctaid, (x, y, z)",
    "warpSize": "32",
    "WARP_SZ": "32",
    "thread_rank": "warp.threads, or warp.laneid within the warp",
    "__shared__": "launch(..., shared=bytes), which allocates it, and its addresses count bytes from 0",
    "shared": SHARED,
    "__cvta_generic_to_shared": "address: it counts bytes of shared memory from 0; warp.generic(address) is generic",
    "__isShared": "warp.ld_shared(address) or warp.ld_global(pointer): a kernel knows which memory it accesses",
}
_BARRIERS: dict[str, str] = {
    "__syncthreads": "warp.bar_sync()",
    "syncthreads": "warp.bar_sync()",
    "__syncthreads_and": "warp.bar_red('and', predicate)",
    "__syncthreads_or": "warp.bar_red('or', predicate)",
    "__syncthreads_count": "warp.bar_red('popc', predicate)",
    "__syncwarp": "warp.bar_warp_sync()",
    "syncwarp": "warp.bar_warp_sync()",
    "__threadfence": "warp.fence()",
    "__threadfence_block": "warp.fence('acq_rel', 'cta')",
    "__threadfence_system": "warp.fence('acq_rel', 'sys')",
    "atomic_thread_fence": "warp.fence('acq_rel', 'gpu')",
    "__nanosleep": "warp.nanosleep(duration)",
    "cudaGridDependencySynchronize": "warp.griddepcontrol('wait')",
    "cudaTriggerProgrammaticLaunchCompletion": "warp.griddepcontrol('launch_dependents')",
}
_LANES: dict[str, str] = {
    "__shfl_sync": "warp.shfl_sync('idx', values, lane)",
    "__shfl_down_sync": "warp.shfl_sync('down', values, delta)",
    "__shfl_up_sync": "warp.shfl_sync('up', values, delta)",
    "__shfl_xor_sync": "warp.shfl_sync('bfly', values, mask)",
    "__ballot_sync": "warp.vote_sync('ballot', predicate)",
    "__any_sync": "warp.vote_sync('any', predicate)",
    "__all_sync": "warp.vote_sync('all', predicate)",
    "__match_any_sync": "warp.match_sync('any', values)",
    "__match_all_sync": "warp.match_sync('all', values)",
    "__activemask": "warp.activemask()",
    "coalesced_threads": "warp.activemask()",
    "elect_one_sync": "warp.elect_sync()",
    "tiled_partition": "warp.shfl_sync('down', values, delta), and warp.only(predicate) for some of the lanes",
    "__popc": "mask.bit_count(), or np.bitwise_count(values) for each lane",
    "__popcll": "mask.bit_count(), or np.bitwise_count(values) for each lane",
    "__ffs": "(mask & -mask).bit_length()",
    "__ffsll": "(mask & -mask).bit_length()",
    "__clz": "32 - mask.bit_length()",
    "__clzll": "64 - mask.bit_length()",
    "__brev": "int(f'{mask:032b}'[::-1], 2)",
}
_CLUSTERS: dict[str, str] = {
    "cluster": "warp.barrier_cluster_arrive() and warp.barrier_cluster_wait() for sync(); warp.cluster_ctarank",
    "this_cluster": "warp.barrier_cluster_arrive() and warp.barrier_cluster_wait() for sync(); warp.cluster_ctarank",
    "map_shared_rank": "warp.mapa(address, rank)",
    "block_rank": "warp.cluster_ctarank",
    "num_blocks": "warp.cluster_nctarank",
    "this_thread_block": "warp.bar_sync() for sync()",
    "this_grid": (
        "for sync(), warp.bar_sync(); in one thread warp.red_global('add.u32', counter, 1, order='release') and a loop "
        "over warp.ld_global(counter, order='acquire'); then warp.bar_sync() again"
    ),
}
_MBARRIER = (
    "warp.mbarrier_init(mbarrier, count), warp.mbarrier_arrive(mbarrier) and warp.mbarrier_wait(mbarrier, parity)"
)
_COPIES: dict[str, str] = {
    "barrier": _MBARRIER,
    "arrive_and_wait": _MBARRIER,
    "barrier_arrive_tx": "warp.mbarrier_arrive_expect_tx(mbarrier, size)",
    "arrive_tx": "warp.mbarrier_arrive_expect_tx(mbarrier, size)",
    "barrier_expect_tx": "warp.mbarrier_expect_tx(mbarrier, size)",
    **dict.fromkeys(("pipeline", "make_pipeline", "memcpy_async"), STAGES),
    "__pipeline_memcpy_async": "warp.cp_async(destination, source, 16)",
    "__pipeline_commit": "warp.cp_async_commit_group()",
    "__pipeline_wait_prior": "warp.cp_async_wait_group(pending)",
    "__pipeline_arrive_on": "warp.cp_async_mbarrier_arrive(mbarrier)",
    "producer_commit": "warp.cp_async_commit_group()",
    "consumer_wait": "warp.cp_async_wait_group(pending)",
}
_WMMA = "tcemu.wmma.{name}, outside a kernel; in a kernel {code}"
_LOAD = "warp.run('wmma.load.a.sync.aligned.row.m16n16k16.shared.f16', address, 16)"
_MULTIPLY = "warp.run('wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32', a, b, c)"
_STORE = "warp.run('wmma.store.d.sync.aligned.row.m16n16k16.shared.f32', address, c, 16)"
_MATRICES: dict[str, str] = {
    name: _WMMA.format(name=name, code=code)
    for name, code in (
        ("load_matrix_sync", _LOAD),
        ("mma_sync", _MULTIPLY),
        ("store_matrix_sync", _STORE),
        ("fragment", _LOAD),
        ("fill_fragment", "warp.registers(8, fill=0)"),
    )
}
_OTHERS: dict[str, str] = {
    "asm": "warp.run('redux.sync.add.u32', values): the opcode, then the operands",
    "printf": "print(values)",
    "__trap": "raise RuntimeError('trap'), or an exception of your own",
    "__brkpt": "breakpoint()",
}

#: CUDA's atomic functions: operation and type of atom. PTX has no subtraction.
_ATOMICS = {
    "Add": "add.u32", "Exch": "exch.b32", "Min": "min.s32", "Max": "max.s32", "And": "and.b32", "Or": "or.b32",
    "Xor": "xor.b32", "Inc": "inc.u32", "Dec": "dec.u32", "Sub": "add.u32", "CAS": "cas.b32",
}  # fmt: skip
_VALUES = {"Sub": "-value", "CAS": "compare, value"}
_ORDERS = {"": "", "_block": ", order='relaxed.cta'", "_system": ", order='relaxed.sys'"}
#: Cache operators of loads and stores: __ldcs, __stwt. Like the ld.global.nc of __ldg, they do not change results here.
_LOADS, _STORES = ("ca", "cg", "cs", "lu", "cv"), ("wb", "cg", "cs", "wt")


def _atomics() -> dict[str, str]:
    """atomicCAS_block and all others."""
    names = {}
    for name, operation in _ATOMICS.items():
        for suffix, order in _ORDERS.items():
            operands = f"'{operation}', address, {_VALUES.get(name, 'value')}{order}"
            code = f"warp.atom_global({operands}), or warp.atom_shared in shared memory"
            quick = "" if name in ("CAS", "Exch") else f"; warp.red_global({operands}) if you do not need the old value"
            names[f"atomic{name}{suffix}"] = f"{code}{quick}"
    return names


def _cached() -> dict[str, str]:
    """__ldg, __ldcs, __stcg and all others."""
    names = {"__ldg": "warp.run('ld.global.nc.b32', address)"}
    names |= {f"__ld{cache}": f"warp.run('ld.global.{cache}.b32', address)" for cache in _LOADS}
    return names | {f"__st{cache}": f"warp.run('st.global.{cache}.b32', address, value)" for cache in _STORES}


def _reductions() -> dict[str, str]:
    """__reduce_add_sync and all others."""
    types = {"add": "u32", "min": "s32", "max": "s32", "and": "b32", "or": "b32", "xor": "b32"}
    return {f"__reduce_{name}_sync": f"warp.redux_sync('{name}.{kind}', values)" for name, kind in types.items()}


#: By name: what to write.
OTHERS: Mapping[str, str] = MappingProxyType(
    _INDICES | _BARRIERS | _LANES | _CLUSTERS | _COPIES | _MATRICES | _OTHERS | _atomics() | _cached() | _reductions()
)
#: The same, by names as people remember them: block_idx, atomic_add.
_REMEMBERED = by_plain_name((name, instead) for name, instead in OTHERS.items())
_AXIS = re.compile("[_.]?[xyz]$")


def instead_of(name: str) -> str:
    """What to write in place of a name that a warp does not have; empty if no row has it.

    >>> from tcemu.machine.other_names import instead_of
    >>> instead_of("__syncthreads"), instead_of("block_idx_x")
    ('warp.bar_sync()', 'warp.ctaid, (x, y, z)')
    """
    if name in OTHERS:
        return OTHERS[name]
    short, whole = plain(_AXIS.sub("", name)), plain(name)
    rows = (WORDS.get(whole), _REMEMBERED.get(whole), _REMEMBERED.get(f"{whole}sync"), _REMEMBERED.get(short))
    return next((each for each in rows if each), "") or _as_opcode(name)


def _as_opcode(name: str) -> str:
    """How to execute the instruction whose mnemonic a name is, with underscores for dots; empty if there is none."""
    mnemonic = name.replace("_", ".")
    for family in FAMILIES:
        if mnemonic in (family.name, family.name.replace("_", ".")):
            forms = (form for row in family.rows for _, form in family.forms(row))
            opcode = next((form.opcode for form in forms if not form.unsupported), "")
            return f"warp.run('{opcode}', ...), with the operands that `tcemu isa {opcode}` lists" if opcode else ""
    return ""


def missing(self: object, name: str) -> Any:
    """Raise UnknownName for a name that a warp does not have; the message names the right one."""
    known = [each for each in dir(self) if not each.startswith("_")]
    same = [] if name in OTHERS else [each for each in known if plain(each) == plain(name)]
    if not same and (code := instead_of(name)):
        raise UnknownName(f"a warp has no {name} here; write {code}")
    near = f" Did you mean {same[0]!r}?" if same else did_you_mean(name, known)
    other = " dir(warp) lists its names; warp.run(opcode, operands) executes every other instruction."
    raise UnknownName(f"a warp has no {name}.{near or other}")


def hint_for(text: str) -> str:
    """A phrase that says what to write in place of C++ given as an opcode; empty for anything else.

    >>> from tcemu.machine.other_names import hint_for
    >>> hint_for("cuda::atomic_thread_fence(order)"), hint_for("bar.alinged")
    ("this is CUDA C++; write warp.fence('acq_rel', 'gpu')", '')
    """
    named = re.split(r"[^\w:.]", text.strip(), maxsplit=1)[0]
    others = [word for word in re.split(r"::|\.", named) if word in OTHERS]
    return f"this is CUDA C++; write {OTHERS[others[-1]]}" if others else ""
