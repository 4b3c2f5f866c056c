"""wmma in PTX: fragments of each architecture, loads and stores against slices of a matrix, products, errors."""

import assembler
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import examples, some
from rows import rows

import tcemu
from tcemu import ArithmeticUnknown, OperandError, formats, parse, run
from tcemu.arithmetic import compute
from tcemu.instructions import target_named
from tcemu.instructions.memory import uniform
from tcemu.instructions.wmma import LOAD, MMA, STORE

LOADS, STORES, PRODUCTS = ([instruction for _, instruction in family.variants] for family in (LOAD, STORE, MMA))
LD_A = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16"
LD_C = "wmma.load.c.sync.aligned.row.m16n16k16.global.f32"
LD_B1 = "wmma.load.a.sync.aligned.row.m8n8k128.global.b1"
ST_D = "wmma.store.d.sync.aligned.row.m16n16k16.global.f32"
F16 = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"
S8 = "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32"
MODERN = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")

# Legality -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", [LOAD, STORE, MMA], ids=lambda family: family.name)
def test_what_is_not_in_the_table_is_refused_and_any_order_is_read(family):
    assembler.check_refusals(family, 1)
    assembler.check_order(family)


def test_operands_are_those_that_the_assembler_takes():
    seen = 0
    for line, target, taken in assembler.operand_verdicts("wmma."):
        opcode, counts, _ = assembler.vectors(line)
        instruction = assembler.parse_or_none(opcode)
        vectors = [each for each in counts if isinstance(each, int)]
        if instruction is None or not assembler.accepted(instruction, target=target):
            assert not taken
        else:
            held = instruction.on(target_named("sm_80")).fragments
            roles = ("d", "a", "b", "c") if instruction.family == "wmma.mma" else tuple(held)
            assert (vectors == [held[role].registers for role in roles]) == taken
        seen += 1
    assert seen >= 9


# Fragments ------------------------------------------------------------------------------------------------------------
# By the figures: where element x of lane (g, t) lies, for A as (row, k), for B as (k, column).


def place(role, shape, form, x, g, t):
    """From sm_75 on."""
    low, high = x & 1, x >> 1 & 1
    if form in ("s4", "u4", "b1", "f64") and role in "ab":
        k = {"s4": 8, "u4": 8, "b1": 32, "f64": 1}[form] * t + x
        return (g, k) if role == "a" else (k, g)
    if form == "tf32":
        return (g + 8 * low, t + 4 * high) if role == "a" else (t + 4 * low, g + 8 * high)
    if role in "cd":
        if shape in ("m16n16k16", "m16n16k8"):
            return g + 8 * high, 2 * t + low + 8 * (x >> 2)
        if shape == "m32n8k16":
            return g + 8 * high + 16 * (x >> 2), 2 * t + low
        if shape == "m8n32k16":
            return 2 * t + low, g + 8 * high + 16 * (x >> 2)
        return g, 2 * t + low
    return bytes_or_halves(role, shape, form, x, g, t)


def bytes_or_halves(role, shape, form, x, g, t):
    """A or B of 8 or 16 bits."""
    low, high, third = x & 1, x >> 1 & 1, x >> 2 & 1
    if form in ("s8", "u8"):
        outer, k = g + 8 * third + 16 * (x >> 3), 4 * t + (x & 3)
        return (outer, k) if role == "a" else (k, outer)
    if role == "a":
        if shape == "m8n32k16":
            return g, 2 * t + low + 8 * high
        return g + 8 * high + 16 * (x >> 3) * (shape == "m32n8k16"), 2 * t + low + 8 * third
    if shape == "m32n8k16":
        return 2 * t + low + 8 * high, g
    if shape == "m8n32k16":
        return 2 * t + low + 8 * third, g + 8 * high + 16 * (x >> 3)
    return 2 * t + low + 8 * high, g + 8 * third


def on_volta(role, layout, form, x, lane):
    """sm_70: two lanes hold every element of A and of B."""
    b1, b2, b3, b4 = (lane >> i & 1 for i in (1, 2, 3, 4))
    q = lane & 3
    if role == "a":
        return (q + 8 * b2 + 4 * b4, x) if layout == "row" else (8 * b2 + 4 * b4 + (x & 3), q + (x & 12))
    if role == "b":
        return (x, q + 8 * b3 + 4 * b4) if layout == "col" else (q + (x & 12), 8 * b3 + 4 * b4 + (x & 3))
    if form == "f16":
        return q + 8 * b2 + 4 * b4, x + 8 * b3
    return (lane & 1) + 8 * b2 + 4 * b4 + 2 * (x >> 1 & 1), 2 * b1 + 8 * b3 + (x & 1) + 4 * (x >> 2)


#: Elements a lane, by role, shape and type, where they are not the size of the matrix over 32.
REPEATED = {"a": {"m8n32k16": 4, "m16n16k16": 2}, "b": {"m32n8k16": 4, "m16n16k16": 2}}


@rows("instruction", some([i for i in (*LOADS, *STORES) if "ss" not in i.words], 50))
def test_each_lane_holds_what_the_figures_say(instruction):
    role, shape, form = instruction.words["matrix"], str(instruction.shape), instruction.words["type"]
    for target in MODERN:
        if not assembler.accepted(instruction, target=target):
            continue
        fragment = instruction.on(target_named(target)).fragments[role]
        elements = fragment.layout.slots
        rows, columns = fragment.shape
        repeated = REPEATED.get(role, {}).get(shape, 1) if form == "f16" else 1
        assert elements == rows * columns // 32 * repeated
        for lane in range(32):
            g, t = divmod(lane, 4)
            for x in range(elements):
                expected = place(role, shape, form, x % (elements // repeated) if repeated > 1 else x, g, t)
                if target == "sm_75" and form == "s32" and shape == "m8n32k16":
                    expected = g, 2 * t + (x & 1) + 8 * (x >> 1)
                assert fragment.layout.position(lane, x) == expected


@rows("instruction", [i for i in (*LOADS, *STORES) if "ss" not in i.words])
def test_voltas_fragments(instruction):
    role, shape, form = instruction.words["matrix"], str(instruction.shape), instruction.words["type"]
    for target in ("sm_70", "sm_72"):
        if not assembler.accepted(instruction, target=target):
            continue
        there = instruction.on(target_named(target))
        if shape != "m16n16k16" or form not in ("f16", "f32"):
            with pytest.raises(
                ArithmeticUnknown, match=f"legal on {target}, but that chip's fragment layouts have not been published"
            ):
                there.fragments[role]
            continue
        fragment = there.fragments[role]
        assert fragment.layout.slots == (16 if role in "ab" else 8)
        for lane in range(32):
            for x in range(fragment.layout.slots):
                assert fragment.layout.position(lane, x) == on_volta(role, instruction.words["layout"], form, x, lane)


def test_a_product_has_the_fragments_of_its_loads_and_stores():
    """What was loaded for it is what it takes, on each chip."""
    for instruction in PRODUCTS:
        for target in ("sm_70", "sm_75", "sm_90a"):
            if not assembler.accepted(instruction, target=target):
                continue
            for role in "abcd":
                form = instruction.types[role].name
                layout = instruction.words[f"{role}layout"] if role in "ab" else "row"
                verb = "store" if role == "d" else "load"
                one = parse(f"wmma.{verb}.{role}.sync.aligned.{layout}.{instruction.shape}.{form}")
                there = [i.on(target_named(target)) for i in (instruction, one)]
                try:
                    mine = there[0].fragments[role]
                except ArithmeticUnknown:
                    continue  # an accumulator of the product may be known where the product's operands are not
                assert mine.layout == there[1].fragments[role].layout


# Loads and stores -----------------------------------------------------------------------------------------------------


def memory_of(instruction, matrix, stride, pointer, size=1 << 15):
    """Bytes with a matrix of patterns at `pointer`, with `stride` elements between rows or columns."""
    bits = instruction.fragments[instruction.words["matrix"]].container.width
    lines = matrix if instruction.words["layout"] == "row" else matrix.T
    memory = np.random.default_rng(1).integers(0, 256, size, np.uint8)
    for i, line in enumerate(lines):
        if bits < 8:
            spread = (line[:, None] >> np.arange(bits, dtype=np.uint8)) & 1
            data = np.packbits(spread.astype(np.uint8).ravel(), bitorder="little")
        else:
            data = np.ascontiguousarray(line).view(np.uint8)
        start = pointer + i * stride * bits // 8
        memory[start : start + len(data)] = data
    return memory


def a_matrix(instruction, rng):
    fragment = instruction.fragments[instruction.words["matrix"]]
    form = fragment.format
    high = min(form.code_mask | ((1 << form.padding) - 1), (1 << 63) - 1)
    return rng.integers(0, high, fragment.shape, np.uint64, endpoint=True).astype(form.storage)


def steps(instruction):
    """Length of a row (or column), and the strides that keep every one aligned."""
    fragment = instruction.fragments[instruction.words["matrix"]]
    rows, columns = fragment.shape
    length = columns if instruction.words["layout"] == "row" else rows
    align = fragment.registers * fragment.container.register_bits // 8
    unit = max(align * 8 // fragment.container.width, 1)
    return length, align, unit


@rows("instruction", [i for i in LOADS if i.words.get("ss") in (None, "shared::cta")])
def test_a_load_is_a_slice_of_memory(instruction):
    rng = np.random.default_rng(2)
    role = instruction.words["matrix"]
    fragment = instruction.fragments[role]
    matrix = a_matrix(instruction, rng)
    length, align, unit = steps(instruction)
    name = "shared" if instruction.words.get("ss") else "memory"
    for stride in (-(-length // unit) * unit, -(-length // unit) * unit + 3 * unit):
        memory = memory_of(instruction, matrix, stride, 5 * align)
        got = run(instruction, 5 * align, stride, **{name: memory})
        assert got.shape == (32, fragment.registers)
        assert np.array_equal(fragment.unpack_patterns(got), matrix)
        assert np.array_equal(got, fragment.container.pack(matrix.reshape(-1)[fragment.layout.gather]))
    memory = memory_of(instruction, matrix, length, 0)
    assert np.array_equal(run(instruction, 0, **{name: memory}), run(instruction, 0, length, **{name: memory}))
    assert np.array_equal(fragment.unpack_patterns(run(instruction, 0, **{name: memory})), matrix)


@rows("instruction", [i for i in STORES if i.words.get("ss") in (None, "shared::cta")])
def test_a_store_fills_a_slice_of_memory_and_nothing_else(instruction):
    rng = np.random.default_rng(3)
    fragment = instruction.fragments["d"]
    matrix = a_matrix(instruction, rng)
    length, align, unit = steps(instruction)
    name = "shared" if instruction.words.get("ss") else "memory"
    registers = fragment.container.pack(matrix.reshape(-1)[fragment.layout.gather])
    for stride in (-(-length // unit) * unit, -(-length // unit) * unit + 2 * unit):
        expected = memory_of(instruction, matrix, stride, 2 * align)
        memory = np.random.default_rng(1).integers(0, 256, 1 << 15, np.uint8)
        assert run(instruction, 2 * align, registers, stride, **{name: memory}) is None
        assert np.array_equal(memory, expected)


def test_the_state_spaces():
    memory = np.random.default_rng(4).integers(0, 256, 4096, np.uint8)
    for verb, more in (("wmma.load.a.sync.aligned.row.m16n16k16{}.f16", ()),):
        generic = run(verb.format(""), 64, *more, memory=memory)
        assert np.array_equal(generic, run(verb.format(""), 64, *more, shared=memory))
        for space, name in ((".global", "memory"), (".shared", "shared"), (".shared::cta", "shared")):
            assert np.array_equal(run(verb.format(space), 64, *more, **{name: memory}), generic)


@pytest.mark.parametrize("target", ["sm_70", "sm_75", "sm_90a"])
@pytest.mark.parametrize("layouts", ["row.row", "row.col", "col.row", "col.col"])
def test_load_multiply_store_is_a_matrix_product(target, layouts):
    """Small integers are exact, whatever the fragments: the same memory comes out on every chip."""
    rng = np.random.default_rng(5)
    left, right = layouts.split(".")
    a, b = rng.integers(-8, 9, (2, 16, 16)).astype(np.float16)
    c = rng.integers(-99, 100, (16, 16)).astype(np.float32)
    turned = [x if layout == "row" else x.T for x, layout in ((a, left), (b, right))]
    memories = [np.ascontiguousarray(x).view(np.uint8).ravel() for x in (*turned, c)]
    registers = [
        run(f"wmma.load.{role}.sync.aligned.{layout}.m16n16k16.{form}", 0, 16, memory=memory, target=target)
        for role, layout, form, memory in zip("abc", (left, right, "row"), ("f16", "f16", "f32"), memories, strict=True)
    ]
    d = run(f"wmma.mma.sync.aligned.{layouts}.m16n16k16.f32.f32", *registers, target=target)
    out = np.zeros(1024, np.uint8)
    run("wmma.store.d.sync.aligned.col.m16n16k16.f32", 0, d, memory=out, target=target)
    assert np.array_equal(out.view(np.float32).reshape(16, 16).T, a.astype(np.float64) @ b.astype(np.float64) + c)


# Products -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@rows("instruction", PRODUCTS)
def test_a_product_is_its_arithmetic_on_matrices(instruction):
    for target in ("sm_75", "sm_80", "sm_90a", "sm_120a"):
        if not assembler.accepted(instruction, target=target):
            continue
        there, operation = instruction.on(target_named(target)), instruction.operation(target_named(target))
        kinds = assembler.kinds(instruction)
        a, b, c = assembler.elements(there, kinds[len(str(instruction)) % len(kinds)], target, 3)
        d = run(instruction, a, b, c, target=target)
        matrices = [there.fragments[role].unpack_patterns(x) for role, x in zip("abc", (a, b, c), strict=True)]
        if operation.packed:
            bits = [
                np.ascontiguousarray(np.packbits(np.swapaxes(m, 1, 2) if i else m, -1, "little")).view("<u4")
                for i, m in enumerate(matrices[:2])
            ]
            matrices = [bits[0], np.ascontiguousarray(np.swapaxes(bits[1], 1, 2)), matrices[2]]
        expected = compute(operation, *matrices)
        assert np.array_equal(there.fragments["d"].unpack_patterns(d), expected)


@pytest.mark.parametrize(("a", "k"), [("s8", 16), ("u8", 16), ("s4", 32), ("u4", 32)])
def test_integers_are_exact(a, k):
    rng = np.random.default_rng(6)
    shape = f"m16n16k{k}" if k == 16 else f"m8n8k{k}"
    opcode = f"wmma.mma.sync.aligned.row.col.{shape}.s32.{a}.{a}.s32"
    instruction = parse(opcode)
    form, (m, n, _) = formats.lookup(a), instruction.shape
    low, high = int(form.lowest), int(form.largest) if form.kind == "float" else (1 << form.mantissa)
    x, y = rng.integers(low, high, (9, m, k)), rng.integers(low, high, (9, k, n))
    c = rng.integers(-(2**31), 2**31, (9, m, n))
    packed = [instruction.fragments[role].pack(v) for role, v in zip("abc", (x, y, c), strict=True)]
    exact = x @ y + c
    d = instruction.fragments["d"].unpack(run(opcode, *packed))
    assert np.array_equal(d, (exact + 2**31) % 2**32 - 2**31)
    clamped = instruction.fragments["d"].unpack(run(f"{opcode}.satfinite", *packed))
    assert np.array_equal(clamped, np.clip(exact, -(2**31), 2**31 - 1))


@pytest.mark.parametrize("op", ["xor", "and"])
def test_bits_are_counted(op):
    rng = np.random.default_rng(7)
    opcode = f"wmma.mma.{op}.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32"
    instruction = parse(opcode)
    x, y = rng.integers(0, 2, (4, 8, 128)), rng.integers(0, 2, (4, 128, 8))
    c = rng.integers(-99, 99, (4, 8, 8))
    packed = [instruction.fragments[role].pack(v) for role, v in zip("abc", (x, y, c), strict=True)]
    both = x[:, :, :, None] ^ y[:, None] if op == "xor" else x[:, :, :, None] & y[:, None]
    assert np.array_equal(instruction.fragments["d"].unpack(run(opcode, *packed)), both.sum(axis=2) + c)


def test_repeated_elements_are_read_once():
    """f16 operands of few elements repeat them; only the first copy counts, as silicon's compiler reads it."""
    instruction = parse(F16)
    a, b, c = (x[0] for x in assembler.elements(instruction, "near", "repeat", 1))
    fragment = instruction.fragments["a"]
    once = fragment.pack(fragment.unpack(a))
    assert np.array_equal(run(F16, a, b, c), run(F16, once, b, c))
    assert (once[:, :4] == once[:, 4:]).all()


@examples(30)
@given(st.sampled_from(PRODUCTS), st.integers(0, 10**6), st.sampled_from(["sm_75", "sm_80", "sm_90a"]))
def test_the_reference_answers_the_same(instruction, seed, target):
    if not assembler.accepted(instruction, target=target):
        return
    kinds = assembler.kinds(instruction)
    there, operation = instruction.on(target_named(target)), instruction.operation(target_named(target))
    a, b, c = assembler.elements(there, kinds[seed % len(kinds)], str(seed), 1)
    if operation.packed:
        a, b = (
            there.fragments[r].read(x.reshape(1, -1), words=True).reshape(1, *s)
            for r, x, s in (("a", a, (8, 4)), ("b", b, (4, 8)))
        )
        c = there.fragments["c"].unpack_patterns(c)
    else:
        a, b, c = (there.fragments[role].unpack_patterns(x) for role, x in zip("abc", (a, b, c), strict=True))
    m, n = seed % a.shape[1], seed // 7 % b.shape[2]
    cut = a[:, m : m + 1], np.ascontiguousarray(b[:, :, n : n + 1]), c[:, m : m + 1, n : n + 1]
    fast = compute(operation, a, b, c)[:, m : m + 1, n : n + 1]
    with pytest.MonkeyPatch.context() as patch:
        assembler.by_reference(patch)
        assert np.array_equal(compute(operation, *cut), fast)


@examples(40)
@given(st.sampled_from([*LOADS, *STORES]), st.integers(0, 10**6), st.sampled_from([(), (3,), (2, 1), (0,)]))
def test_the_reference_moves_the_same(instruction, seed, lead):
    rng = np.random.default_rng(seed)
    role, (length, align, unit) = instruction.words["matrix"], steps(instruction)
    fragment = instruction.fragments[role]
    memory = rng.integers(0, 256, (*lead[-1:], 20_001), np.uint8)
    pointer, stride = align * rng.integers(0, 20, lead), unit * (-(-length // unit) + rng.integers(0, 4, lead))
    held = rng.integers(0, 2**32, (*lead, 32, fragment.registers), np.uint64).astype(fragment.container.register_dtype)
    name = "shared" if "shared" in instruction.words.get("ss", "") else "memory"
    operands = (pointer, stride) if role != "d" else (pointer, held, stride)
    one, two = memory.copy(), memory.copy()
    fast = run(instruction, *operands, **{name: one})
    with pytest.MonkeyPatch.context() as patch:
        assembler.by_reference(patch)
        slow = run(instruction, *operands, **{name: two})
    assert np.array_equal(one, two)
    assert fast is slow is None or np.array_equal(fast, slow)


# Many warps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pointer", "stride"), [(4, 16), (2048, 16)])
def test_what_is_refused_stores_nothing(pointer, stride):
    """One bad pointer behind many good warps: none of them has stored."""
    pointers = np.zeros(1500, int)
    pointers[1400] = pointer
    registers, memory = np.ones((1500, 32, 8), np.uint32), np.zeros(2048, np.uint8)
    with pytest.raises(OperandError, match=f"pointer of warp 1400: address {pointer} "):
        run(ST_D, pointers, registers, stride, memory=memory)
    assert not memory.any()
    run(ST_D, pointers[:1400], registers[:1400], stride, memory=memory)
    assert memory.any()


@pytest.mark.parametrize("what", ["the pointer", "the stride"])
@pytest.mark.parametrize("opcode", [LD_A, ST_D])
def test_lanes_that_give_one_value_and_lanes_that_do_not(opcode, what):
    instruction = parse(opcode)
    values = np.full(32, 256, np.uint32)
    assert uniform(instruction, what, values) == uniform(instruction, what, 256) == 256
    assert uniform(instruction, what, values).shape == ()
    values[[17, 30]] = 288, 0
    kind = {"the pointer": "pointer from lane 0: address", "the stride": "stride from lane 0: value"}[what]
    with pytest.raises(OperandError) as error:
        uniform(instruction, what, values)
    told = f"{opcode}: lane 17 gives a different {kind} 288, not 256. All lanes of a warp must give the same one"
    assert str(error.value).startswith(told)
    assert f"PTX ISA 9.1, {instruction.section}" in str(error.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [(np.zeros(31, int), r"one for each lane; got \(31,\)"), (np.zeros((1, 32), int), r"got \(1, 32\)"),
     (np.zeros(32), "must be integers; got dtype float64"), (None, "must be integers; got dtype object")],
)  # fmt: skip
def test_what_no_lanes_give(given, message):
    with pytest.raises(OperandError, match=message):
        uniform(parse(LD_A), "the pointer", given)


def test_the_axes_in_front_broadcast():
    memory = np.random.default_rng(8).integers(0, 256, (3, 8192), np.uint8)
    pointer, stride = np.array([[0], [64]]), np.array([16, 24, 32])
    d = run(LD_C, pointer, stride, memory=memory)
    assert d.shape == (2, 3, 32, 8)
    for i, j in np.ndindex(2, 3):
        assert np.array_equal(d[i, j], run(LD_C, int(pointer[i, 0]), int(stride[j]), memory=memory[j]))
    assert run(LD_C, pointer[:0], memory=memory).shape == (0, 3, 32, 8)
    out = np.zeros((2, 3, 8192), np.uint8)
    run(ST_D, pointer, d, stride, memory=out)
    assert np.array_equal(run(LD_C, pointer, stride, memory=out), d)
    many = run(LD_C, 64 * np.arange(100), memory=memory[0])
    assert np.array_equal(many[77], run(LD_C, 64 * 77, memory=memory[0]))


def test_more_warps_than_a_chunk():
    memory = np.random.default_rng(9).integers(0, 256, 4096, np.uint8)
    pointer = np.tile(np.arange(3) * 64, 700)
    d = run(LD_A, pointer, memory=memory)
    assert np.array_equal(d, np.tile(d[:3], (700, 1, 1)))
    pointer[1999] = 4000
    with pytest.raises(OperandError, match=r"line \d+ of warp 1999: address \d+ lies outside memory="):
        run(LD_A, pointer, memory=memory)


# Errors ---------------------------------------------------------------------------------------------------------------


def zeros(*shape, dtype=np.uint32):
    return np.zeros(shape, dtype)


BYTES = zeros(2048, dtype=np.uint8)
READ_ONLY = BYTES.copy()
READ_ONLY.flags.writeable = False
D = zeros(32, 8)

BAD = {
    "nothing": (LD_A, (), {"memory": BYTES}, ["takes a pointer and optionally a stride", "got 0 operands"]),
    "registers for a load": (LD_A, (0, D, 16), {"memory": BYTES}, ["got 3 operands"]),
    "no registers for a store": (
        ST_D,
        (0,),
        {"memory": BYTES},
        ["takes a pointer, registers of D and optionally a stride", "got 1 operands"],
    ),
    "no memory": (LD_A, (0, 16), {}, ["needs the bytes it addresses: memory=", "got nothing"]),
    "shared memory for global addresses": (
        LD_A,
        (0, 16),
        {"shared": BYTES},
        ["needs the bytes it addresses: memory=", "got shared"],
    ),
    "global memory for shared addresses": (
        LD_A.replace("global", "shared"),
        (0, 16),
        {"memory": BYTES},
        ["needs the bytes it addresses: shared=", "got memory"],
    ),
    "no memory for generic addresses": (
        LD_A.replace(".global", ""),
        (0, 16),
        {},
        ["shared= or memory=", "got nothing"],
    ),
    "both for generic addresses": (
        LD_A.replace(".global", ""),
        (0, 16),
        {"shared": BYTES, "memory": BYTES},
        ["both are given, and a generic address could lie in either"],
    ),
    "memory for a product": (F16, (D, D, D), {"memory": BYTES}, ["does not take memory=", "registers only"]),
    "memory of floats": (
        LD_A,
        (0, 16),
        {"memory": zeros(2048, dtype=np.float16)},
        ["memory= must be a uint8 array (..., bytes)", "float16"],
    ),
    "a list as memory": (LD_A, (0, 16), {"memory": [0] * 2048}, ["memory= must be a uint8 array", "list"]),
    "a pointer that is not aligned": (
        LD_A,
        (8, 16),
        {"memory": BYTES},
        [
            ": pointer: address 8 is not a multiple of 16",
            "it starts at a multiple of 16 bytes, by the manual at one of the fragment's size",
            "PTX ISA 9.1, 9.7.14.4.3",
        ],
    ),
    "a column that is not aligned": (
        LD_A.replace("row", "col"),
        (8, 16),
        {"memory": BYTES},
        [": pointer: address 8 is not a multiple of 16"],
    ),
    "a pointer behind the end": (
        LD_A,
        (2048, 16),
        {"memory": BYTES},
        [": pointer: address 2048 lies outside memory= (2048 bytes, 32 needed)"],
    ),
    "the last row behind the end": (LD_A, (0, 144), {"memory": BYTES}, ["line 8: address 2304 lies outside memory="]),
    "a negative pointer": (LD_A, (-32, 16), {"memory": BYTES}, [": pointer: address -32 lies outside"]),
    "a huge pointer": (LD_A, (2**63 - 32, 16), {"memory": BYTES}, [": pointer: address", "lies outside"]),
    "a huge stride": (LD_A, (0, 2**62), {"memory": BYTES}, ["line 1: address", "lies outside"]),
    "in which warp": (LD_A, ([0, 0, 8], 16), {"memory": BYTES}, [": pointer of warp 2: address 8"]),
    "a stride below the length of a row": (
        LD_A,
        (0, 8),
        {"memory": BYTES},
        ["stride 8 is less than 16, the length of a row", "undefined", "PTX ISA 9.1, 9.7.14.4.2"],
    ),
    "a negative stride": (
        LD_A.replace("row", "col"),
        (0, -16),
        {"memory": BYTES},
        ["stride -16 is less than 16, the length of a column"],
    ),
    "a stride far below": (LD_A, (0, -(2**63)), {"memory": BYTES}, ["is less than 16, the length of a row"]),
    "a stride that is not aligned": (
        LD_A,
        (0, 20),
        {"memory": BYTES},
        ["stride 20 elements are not a multiple of 16 bytes: every row must start at one"],
    ),
    "a stride of bits": (LD_B1, (0, 136), {"memory": BYTES}, ["stride 136 elements are not a multiple of 4 bytes"]),
    "a stride of one warp": (LD_A, (0, [16, 16, 8]), {"memory": BYTES}, ["stride 8 is less than 16"]),
    "a pointer of floats": (LD_A, (0.0, 16), {"memory": BYTES}, ["the pointer must be integers", "float64"]),
    "a stride of floats": (LD_A, (0, 16.0), {"memory": BYTES}, ["the stride must be integers", "float64"]),
    "a pointer in words": (LD_A, ("x", 16), {"memory": BYTES}, ["the pointer must be integers"]),
    "no pointer": (LD_A, (None, 16), {"memory": BYTES}, ["the pointer must be integers"]),
    "too few registers to store": (
        ST_D,
        (0, zeros(32, 4)),
        {"memory": BYTES},
        ["operand d (f32)", "4 registers a lane where 8 are needed"],
    ),
    "floats to store": (ST_D, (0, D.astype(np.float32)), {"memory": BYTES}, ["(f32) must be uint32", "float32"]),
    "a store to read-only memory": (
        ST_D,
        (0, D),
        {"memory": READ_ONLY},
        ["stores to memory=, but that array is read-only"],
    ),
    "a store that is not aligned": (
        ST_D,
        (24, D),
        {"memory": BYTES},
        [": pointer: address 24 is not a multiple of 16", "PTX ISA 9.1, 9.7.14.4.4"],
    ),
    "pointers that do not fit": (
        LD_A,
        (zeros(2), np.full(3, 16)),
        {"memory": BYTES},
        ["do not broadcast", "(2,)", "(3,)"],
    ),
    "two operands": (F16, (D, D), {}, ["takes registers of A, B and C", "got 2 operands"]),
    "fragments of another type": (S8, (D, D, D), {}, ["operand a (s8)", "8 registers a lane where 2 are needed"]),
}


@pytest.mark.parametrize("mistake", BAD)
def test_what_does_not_fit_is_explained(mistake):
    opcode, operands, memories, words = BAD[mistake]
    with pytest.raises(OperandError) as error:
        run(opcode, *operands, **memories)
    for word in words:
        assert word in str(error.value)
    assert not BYTES.any()


def test_what_nobody_has_told_is_said():
    for opcode, operands in (
        ("wmma.load.a.sync.aligned.row.m8n32k16.global.f16", (0,)),
        ("wmma.mma.sync.aligned.row.col.m32n8k16.f32.f32", (D, D, D)),
    ):
        with pytest.raises(ArithmeticUnknown, match="legal on sm_70, but that chip's fragment layouts have not"):
            run(opcode, *operands, target="sm_70", **({"memory": BYTES} if "load" in opcode else {}))


def test_each_spelling_is_of_its_family():
    for text, words in (
        ("wmma", ["wmma is followed by", ".load", ".mma", ".store"]),
        ("wmma.store.c.sync.aligned.row.m16n16k16.f32", ["'.c' is not a qualifier of wmma"]),
        ("wmma.load.d.sync.aligned.row.m16n16k16.f32", ["'.d' is not a qualifier of wmma"]),
        ("wmma.load.a.sync.aligned.row.m16n16k16.f32", ["cannot be combined with the other qualifiers"]),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32", [".u8 cannot be combined", ".btype must be .s8"]),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32.satfinite", [".satfinite cannot be combined"]),
        ("wmma.mma.sync.aligned.row.row.m8n8k32.s32.s4.s4.s32", [".row cannot be combined", ".blayout must be .col"]),
    ):
        with pytest.raises(tcemu.IllegalInstruction) as error:
            parse(text)
        for word in words:
            assert word in str(error.value)


ODD = st.one_of(
    st.none(), st.integers(), st.integers(-(2**63), 2**64), st.text(), st.floats(), st.just(D), st.just(zeros(3)),
    st.just(np.full(3, 2**62)), st.just(np.array([2**64 - 1], np.uint64)), st.just(zeros(0)), st.just([[1], [1, 2]]),
    st.just(object()), st.just(zeros(2, 32, 8)), st.just(16), st.just(0), st.just(np.zeros(2, ">i4")),
)  # fmt: skip
MEMORY = st.one_of(
    st.none(), st.just(BYTES.copy()), st.just(READ_ONLY), st.just(zeros(3, 512, dtype=np.uint8)), st.just(BYTES[:7]),
    st.just("x"), st.just(zeros(0, 512, dtype=np.uint8)), st.just(np.zeros((2048, 2), np.uint8).T),
)  # fmt: skip


@given(
    st.sampled_from([*LOADS, *STORES, *PRODUCTS]),
    st.lists(ODD, max_size=4),
    MEMORY,
    st.sampled_from(["sm_70", "sm_75", "sm_90a"]),
)
def test_anything_runs_or_is_explained(instruction, operands, memory, target):
    assembler.only_tcemu_errors(run, instruction, *operands, memory=memory, target=target)
    assembler.only_tcemu_errors(run, instruction.opcode, *operands, shared=memory, target=target)
