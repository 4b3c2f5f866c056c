"""Forms of the instructions that the machine executes, and operands for each: what tests of several files share."""

from functools import cache

import numpy as np

import tcemu
from tcemu.instructions import FAMILIES, target_named
from tcemu.instructions.elements import space_of
from tcemu.machine.launch_control import CANCELLED

#: Targets that together have every form.
TARGETS = ("sm_90a", "sm_120a", "sm_100a", "sm_103a")
#: Families that mean something in a kernel only, and that the machine executes at least in part.
OWN = [
    family
    for family in FAMILIES
    if family.execute is None and not family.unsupported and not all(row.facts.unsupported for row in family.rows)
]
#: Families that work on Tensor Memory, which must be allocated: test_tcgen05.py executes each form.
TENSOR = "tcgen05."


def home(instruction):
    """The first target that has it; empty where there is none."""
    return next((target for target in TARGETS if instruction.gate.admits(target_named(target))), "")


@cache
def ends():
    """The first and the last form of each row of OWN that the machine executes, and one with each hint."""
    found = {}
    for family in OWN:
        for row in family.rows:
            for words in row.ends:
                hinted = [{slot: word} for slot, hints in row.hints.items() for word, need in hints.items() if need]
                for more in ({}, *hinted):
                    form = tcemu.parse(family.spelling.write({**words, **more}))
                    if home(form) and not form.unsupported:
                        found[form.opcode] = form
    return list(found.values())


#: Where tests keep an mbarrier in shared memory.
BARRIER = 0


def operands(instruction, warp, array, tensor_map, *, optional):
    """Legal operands of any form of OWN: `array` is a pointer to 64 KB, with zeros in them."""
    words, generic = instruction.words, space_of(instruction) == "generic"
    near, far = 4096 + 32 * warp.laneid, array + 32 * warp.laneid
    shared = instruction.family in ("mapa", "getctarank", "st.async", "red.async")
    ends = {"destination": words.get("dst", "shared"), "source": words.get("src", "global")}
    if "tensor" in instruction.family:
        near = 4096
    given = {
        "address": far if space_of(instruction) in ("global", "generic") else near,
        "cta": 0,
        "cta_mask": 1,
        "mbarrier": warp.generic(BARRIER) if generic and "bulk" not in instruction.family else BARRIER,
        "a": warp.laneid,
        "b": 1,
        "c": 31,
        "predicate": True,
        "membermask": 0xFFFFFFFF,
        "size": 16,
        "src_size": 4,
        "tensor_map": tensor_map,
        "coordinates": (0,) * int(words.get("dim", "0d")[0]),
        "offsets": (0,) * (int(words.get("dim", "2d")[0]) - 2),
        "cache_policy": 0,
        "barrier": 3,
        "threads": 32,
        "count": 1,
        "tx_count": 0,
        "state": 5 << 61,  # of a phase that is complete
        "parity": 1,
        "suspend_hint": 20,
        "duration": 20,
        "N": 0,
        "response": np.tile(np.array([0, 0, 0, CANCELLED], np.uint32), (32, 1)),
    }
    given |= {role: near if "shared" in space else far for role, space in ends.items()}
    if shared:
        given["a"] = given["address"] = warp.generic(near) if generic else near
    if "tensormap" in instruction.opcode and instruction.family != "prefetch.tensormap":
        space = words.get("ss", "generic")
        place = {"shared::cta": 4096, "global": array, "generic": warp.generic(4096)}[space]
        given |= {"tensor_map": place, "ordinal": 1, "value": 1, "size": 128, "address": array, "destination": array}
        given["source"] = 4096
    if instruction.family == "clusterlaunchcontrol.try_cancel" and generic:
        given["destination"] = warp.generic(near)
    if instruction.family == "mbarrier.init":
        given["count"] = 64
    if instruction.family == "setmaxnreg":
        given["count"] = 248 if words["action"] == "dec" else 256
    return [given[each.role] for each in instruction.sources if optional or not each.optional]
