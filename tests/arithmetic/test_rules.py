"""Every model of the table on the inputs that tell rules apart, against exact.py: groups that cancel, an addend of
another type that is subnormal, sums at the floor, terms at the cut, ties, overflow.
"""

from functools import cache
from itertools import product

import numpy as np
import pytest
from asked import compared
from dots import KINDS, compute_dots, dots
from exact import exact, take_apart
from mutants import idle, label, mutants
from quick import some, spread, turn

import tcemu
from tcemu.arithmetic import ROWS, FmaGroups, FusedSums, ScaledSums, find, reference
from tcemu.errors import ArithmeticUnknown
from tcemu.formats import lookup
from tcemu.instructions import TARGETS, parse, target_named
from tcemu.instructions.parse import FAMILIES
from tcemu.instructions.tcgen05_product import Product
from tcemu.layouts.instruction_descriptor import KINDS as KINDS_OF_MMA
from tcemu.layouts.instruction_descriptor import instruction_descriptor


@cache
def operations():
    """Every operation that any instruction needs on any target, with one instruction for it, and the rows for them."""
    found, rows = {}, set()
    for family in FAMILIES:
        for _, instruction in family.variants if family.computes else ():
            for target in TARGETS.values():
                if instruction.gate.admits(target):
                    try:
                        found.setdefault(instruction.operation(target), instruction)
                        rows.add(instruction.arithmetic(target))
                    except ArithmeticUnknown:
                        continue
    return found, rows | set(of_tensor_memory())


def of_tensor_memory():
    """The rows of tcgen05.mma, whose types are in the instruction descriptor."""
    for sp, ws, group in product(("", ".sp"), ("", ".ws"), (1, 2)):
        for kind in KINDS_OF_MMA.values():
            scales = [f".block_scale.block{size}" for size in kind.scales] or [""]
            opcode = f"tcgen05.mma{ws}{sp}.cta_group::{group}.kind::{kind.name}{scales[0]}"
            if ws and (kind.scaled or group == 2):
                continue
            instruction, m = parse(opcode), kind.m[group][-1]
            for d, a in product(kind.d, kind.types):
                bits = instruction_descriptor(m, 64, kind=kind.name, d=d, a=a, b=a, sparse=bool(sp))
                for target in TARGETS.values():
                    if instruction.gate.admits(target):
                        try:
                            yield Product.of(instruction, bits, target).row
                        except ArithmeticUnknown:
                            continue


@cache
def of_floats():
    """Those on floats that are not f64, which is the processor's own."""
    models = FusedSums, ScaledSums, FmaGroups
    return {one: instruction for one, instruction in operations()[0].items() if isinstance(one.model, models)}


def check(operation, instruction, kind, key, count):
    """The kernel, and for some the reference, are what Fractions say; how many dot products were compared."""
    names = {role: getattr(operation, role) for role in ("a", "b", "c", "d", "scale")}
    a, b, c, *scales = given = dots(instruction, kind, key, count)
    computed, compared = compute_dots(operation, *given), 0
    for i in range(count):
        dot = a[i].tolist(), b[i].tolist(), int(c[i])
        factors = tuple(x[i].tolist() for x in scales)
        expected = exact(operation.model, names, *dot, factors)
        if expected is None:
            continue
        if scales:
            meant = reference.dot_scaled(operation.model, *dot, factors, operation.formats)
        else:
            meant = reference.dot(operation.model, *dot, operation.formats, {})
        assert hex(meant) == hex(expected), (kind, dot, factors)
        assert hex(computed[i]) == hex(expected), (kind, dot, factors)
        compared += 1
    return compared


def test_every_row_speaks_of_an_instruction(row):
    """No row is known from recordings of an instruction that does not exist."""
    for held in ROWS:
        with row(label(held)):
            assert held in operations()[1], "no target has such an instruction"


def test_every_row_of_floats_is_among_them():
    models = {operation.model for operation in of_floats()}
    assert {row.model for row in ROWS if isinstance(row.model, (FusedSums, ScaledSums, FmaGroups))} == models


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_is_what_fractions_say(row, kind):
    """Of each model and type of C and D, one operation."""
    chosen = {(operation.model, operation.c, operation.d): operation for operation in of_floats()}
    for operation in some(chosen.values(), 12):
        with row(f"{of_floats()[operation]} {operation.model}"):
            check(operation, of_floats()[operation], kind, "rules", 3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_operation_is_what_fractions_say(row, kind):
    """Every model with every pair of types that it multiplies, each in a third of the classes of inputs."""
    compared, asked = 0, spread(of_floats().items(), 3, first=list(KINDS).index(kind))
    for operation, instruction in asked:
        with row(f"{instruction} {operation.model}"):
            compared += check(operation, instruction, kind, "many rules", 4)
    assert compared > len(asked) // 2  # a sum with a NaN is no fraction


#: Dot products of each class among which a change is looked for.
MANY = 512


def telling(operations):
    """(mutant, operation, dot product) for each change: the first input of any class that reveals it."""
    told = set()
    for operation in operations:
        changed = {mutant.name: mutant for mutant in mutants(operation) if not idle(operation, mutant)}
        left = {name: mutant for name, mutant in changed.items() if name not in told}
        for kind in KINDS if left else ():
            given = dots(of_floats()[operation], kind, "telling", MANY)
            asked = compared(kind, given)
            known, few = asked.answer(operation), asked.few(operation) if any(m.slow for m in left.values()) else None
            for name, mutant in list(left.items()):
                wrong = mutant.few(asked) != few if mutant.slow else asked.answer(mutant.operation) != known
                if wrong.any():
                    told.add(left.pop(name).name)
                    yield mutant, operation, tuple(x[np.argmax(wrong)] for x in given)


def by_hand(mutant):
    """What random inputs do not show, and tests below do: the conversion of subnormals, and rounding twice."""
    model = mutant.operation.model
    return mutant.field == "through" or (mutant.field == "rounding" and model.via is not None)


@pytest.mark.slow
def test_every_change_of_every_model_is_told_from_what_fractions_say(row):
    """If a number is changed a little, some input of these classes has another result, which Fractions confirm."""
    models = {}
    for operation in of_floats():
        models.setdefault((operation.model, operation.c, operation.d), []).append(operation)
    for model, operations in spread(models.items(), 3, turn(3)):
        with row(" ".join(map(str, model))):
            left = {m.name: m for operation in operations for m in mutants(operation) if not idle(operation, m)}
            for mutant, operation, (a, b, c, *scales) in telling(operations):
                names = {role: getattr(operation, role) for role in ("a", "b", "c", "d", "scale")}
                given = a.tolist(), b.tolist(), int(c), tuple(x.tolist() for x in scales)
                expected = exact(operation.model, names, *given)
                answer = compute_dots(operation, *(np.array(x)[None] for x in (a, b, c, *scales)))[0]
                assert expected is None or hex(answer) == hex(expected), (mutant.name, given)
                del left[mutant.name]
            assert all(map(by_hand, left.values())), list(left)


@pytest.mark.slow
def test_a_floor_that_no_input_reaches_changes_nothing(row):
    """The changes that the check of the table's numbers leaves out, because no recording could show them."""
    unreachable = [(one, m) for one in of_floats() for m in mutants(one) if idle(one, m) and m.how != "-1"]
    for operation, mutant in some(spread(unreachable, 3), 8):
        with row(f"{of_floats()[operation]} {operation.model} {mutant.name}"):
            for kind in KINDS:
                asked = compared(kind, dots(of_floats()[operation], kind, "unreachable", MANY))
                assert np.array_equal(asked.answer(operation), asked.answer(mutant.operation)), kind


# By hand --------------------------------------------------------------------------------------------------------------


def one(target, opcode, a, b, c, *scales):
    """The pattern of one dot product whose other products are zero."""
    instruction = tcemu.parse(opcode, target=target)
    operation = instruction.operation(target_named(target))
    forms, arrays = operation.formats, []
    for role, values in (("a", a), ("b", b)):
        line = np.zeros((1, operation.depth), forms[role].storage)
        line[0, : len(values)] = forms[role].encode(np.array(values, float))
        arrays.append(line)
    addend = np.array([c], forms["c"].storage) if isinstance(c, int) else forms["c"].encode(np.array([c]))
    return int(compute_dots(operation, *arrays, addend, *(np.array([s], np.uint8) for s in scales))[0])


MXF4 = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0"
#: In the first group of 16 the products cancel, in the second they are 4.
CANCELLED = [1.0, 1.0] + [0.0] * 14 + [2.0], [1.0, -1.0] + [0.0] * 14 + [2.0]


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (127 + 18, 0x40800000),  # the exponent 36 of a group that is 0 keeps what is 2^(36 - 35) or more
        (127 + 19, 0x00000000),  # 38 cuts 4 off: 2^2 < 2^(38 - 35)
    ],
)
def test_a_group_that_cancels_still_aligns(scale, expected):
    """MMA-Sim 2.1.1: the largest exponent is that of the scales, whatever is left of the products."""
    scales = [scale, 127, 127, 127]
    assert one("sm_120a", MXF4, *CANCELLED, 0.0, scales, scales) == expected


def test_a_group_of_zeros_does_not_align():
    a, b = [0.0, 1.0] + [0.0] * 14 + [2.0], [1.0, 0.0] + [0.0] * 14 + [2.0]
    assert one("sm_120a", MXF4, a, b, 0.0, [250, 127, 127, 127], [250, 127, 127, 127]) == 0x40800000
    zero_scale = MXF4.replace("ue8m0", "ue4m3")
    assert one("sm_120a", zero_scale, *CANCELLED, 0.0, [0, 56, 56, 56], [0, 56, 56, 56]) == 0x40800000


@pytest.mark.parametrize(("tail", "expected"), [(0, 0), (-1, 1)])
def test_the_floor_of_groups_is_139(tail, expected):
    """2^-149 - 2^-174 rounds to zero; 2^-175 lies below the grid 2^(-139 - 35) and is cut off."""
    a, b = [1.0] + [0.0] * 15 + [1.0], [1.0] + [0.0] * 15 + [-1.0]
    scales_a, scales_b = [127 - 75, 127 - 87, 127, 127], [127 - 74, 127 - 174 + 87 + tail, 127, 127]
    assert one("sm_120a", MXF4, a, b, 0.0, scales_a, scales_b) == expected


@pytest.mark.parametrize("target", ["sm_70", "sm_75"])
def test_an_f16_addend_is_not_widened_by_m8n8k4(target):
    """c = 2^-24 has the exponent -14, so 2^-38 is cut off behind 23 bits; were c widened, 2^-47 would stay."""
    opcode = "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16"
    a, b = [2.0**-24, 2.0**-24], [2.0**-13, 2.0**-14]  # 2^-37 is the last place of the sum
    assert one(target, opcode, a, b, 1) == lookup("f32").encode(2.0**-24 + 2.0**-37)
    assert one(target, opcode.replace("f16.f16.f16", "f16.f16.f32"), a, b, 2.0**-24) == lookup("f32").encode(
        2.0**-24 + 2.0**-37 + 2.0**-38
    )


@pytest.mark.parametrize(("target", "kept"), [("sm_70", False), ("sm_75", True), ("sm_80", True), ("sm_90a", True)])
def test_wmma_widens_but_on_sm_70(target, kept):
    """SASS: sm_70 begins with HMMA.884.F32.F16; the others convert by HADD2.F32."""
    opcode = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16"
    value = 2.0**-24 + 2.0**-37 + (2.0**-38 if kept else 0)
    assert one(target, opcode, [2.0**-24, 2.0**-24], [2.0**-13, 2.0**-14], 1) == lookup("f32").encode(value)


def test_turings_m8n8k4_is_voltas():
    for c in ("f16", "f32"):
        for d in ("f16", "f32"):
            if (c, d) != ("f32", "f16"):
                volta, turing = (find(sm, "mma", "m8n8k4", "f16", "f16", c, d).model for sm in (70, 75))
                assert volta == turing
    assert take_apart("f16", 1) == (2.0**-24, -14)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_fp8_subnormals_become_normal_in_f16(target):
    """SASS: F2FP. 2^-9 is subnormal in e4m3 (exponent -6) and normal in f16, so 2^-9 * 2^15 = 2^6 keeps 2^-17."""
    opcode = "mma.sync.aligned.m16n8k32.row.col.{0}.e4m3.e5m2.{0}"
    a, b = [2.0**-9, 2.0**-6], [2.0**15, 2.0**-11]  # with the exponent 9 of 2^-6 * 2^15 the sum would end at 2^-16
    assert one(target, opcode.format("f32"), a, b, 0.0) == lookup("f32").encode(2.0**6 + 2.0**-17)
    a, b = [2.0**-9, 2.0**-6, 0.0, 0.0, 2.0**-5], [2.0**15, 2.0**-11, 0.0, 0.0, 1.0]
    # 2^-17 decides a tie of f16 at 2^-5
    assert one(target, opcode.format("f16"), a, b, 0.0) == lookup("f16").encode(2.0**6 + 2.0**-4)


@pytest.mark.parametrize("target", ["sm_70", "sm_75", "sm_80", "sm_90a", "sm_120a"])
def test_an_f16_result_of_an_f32_addend_is_rounded_twice(target):
    """2 + 2^-9 + 2^-10 - 2^-23 is cut off in f32, below the middle of two f16; to nearest it would be the middle."""
    opcode = "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f32"
    c = 1 + 2.0**-9 + 2.0**-10 - 2.0**-23
    assert one(target, opcode, [1.0], [1.0], c) == lookup("f16").encode(2 + 2.0**-9)
