"""mma.sync against silicon: golden files of an H200, and outputs of other GPUs that others published."""

import json

import ml_dtypes
import numpy as np
import pytest
from places import GOLDEN
from published import published
from quick import some
from rows import rows

import tcemu
from tcemu.instructions.mma import FAMILY
from tcemu.vectors import CLASSES, classes, digest, matrices

RECORDED = json.loads((GOLDEN / "sm_90a-mma.json").read_text())
TARGET, WARPS = RECORDED["provenance"]["target"], RECORDED["provenance"]["warps"]
VARIANTS = {instruction.opcode: instruction for _, instruction in FAMILY.variants}
CASES = [tuple(key.split("|")) for key in RECORDED["sha256"]]
RECORDED_OPCODES = list(dict.fromkeys(opcode for opcode, _ in CASES))


@pytest.fixture(scope="module")
def samples():
    with np.load(GOLDEN / "sm_90a-mma.npz") as file:
        return dict(file)


def difference(instruction, got, expected):
    """The first register that differs, decoded; None where none does."""
    where = np.argwhere(got != expected)
    if not len(where):
        return None
    warp, lane, register = (int(index) for index in where[0])
    fragment, words = instruction.fragments["d"], (got[warp, lane, register], expected[warp, lane, register])
    values = [fragment.format.decode(fragment.container.unpack(np.array([word]))).tolist() for word in words]
    return (
        f"{instruction}: warp {warp}, lane {lane}, register {register} (element {fragment.position(lane, register)}): "
        f"{words[0]:#x} {values[0]}, the hardware answers {words[1]:#x} {values[1]}; {len(where)} registers differ"
    )


def test_the_golden_files_say_where_they_come_from(samples):
    provenance = RECORDED["provenance"]
    assert {"gpu", "target", "driver", "ptx", "date", "warps", "command", "inputs"} <= set(provenance)
    assert set(samples) == set(RECORDED["sha256"])
    for opcode in dict.fromkeys(opcode for opcode, _ in CASES):
        assert {kind for recorded, kind in CASES if recorded == opcode} == set(classes(VARIANTS[opcode])), opcode


def test_the_inputs_are_what_their_classes_promise():
    """The golden files prove something about NaN, subnormals and cancellation only if such inputs are among them."""
    for opcode in (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64",
    ):
        instruction = VARIANTS[opcode]
        met = {}
        for kind in CLASSES:
            given = matrices(instruction, kind, WARPS)
            form, a = instruction.types["a"], instruction.fragments["a"].unpack(given[0]).astype(np.float64)
            met[kind] = {
                "nan": np.isnan(a).any(),
                "infinity": np.isinf(a).any(),
                "negative zero": ((a == 0) & np.signbit(a)).any(),
                "subnormal": ((np.abs(a) < form.smallest_normal) & (a != 0)).any(),
                "neighbours cancel": (a[..., ::2] == a[..., 1::2]).mean() > 0.5,
            }
        assert met["specials"]["nan"]
        assert met["specials"]["infinity"]
        assert met["specials"]["negative zero"]
        assert met["tiny"]["subnormal"]
        assert not met["near"]["nan"]
        assert not met["near"]["subnormal"]
        assert met["cancel"]["neighbours cancel"] == (".f16." in opcode)  # where a register holds two of k


@rows("opcode", some(RECORDED_OPCODES, 6))
def test_what_an_h200_answered(opcode, samples):
    instruction = VARIANTS[opcode]
    for kind in classes(instruction):
        given = matrices(instruction, kind, WARPS)
        got, sample = tcemu.run(opcode, *given, target=TARGET), samples[f"{opcode}|{kind}"]
        assert difference(instruction, got[:1], sample[None]) is None, kind
        assert digest(got) == RECORDED["sha256"][f"{opcode}|{kind}"], f"{kind}: not in the first warp, but in another"


def check_reference(opcode, kinds, samples, monkeypatch):
    """The reference is for a learner to step through; a warp of it takes a while."""
    instruction = VARIANTS[opcode]
    monkeypatch.setattr("tcemu.backend._State.chosen", "reference")
    for kind in kinds:
        given = [array[:1] for array in matrices(instruction, kind, WARPS)]
        got = tcemu.run(opcode, *given, target=TARGET)
        assert difference(instruction, got, samples[f"{opcode}|{kind}"][None]) is None, kind


@rows("opcode", some(RECORDED_OPCODES, 6))
def test_the_reference_alone_answers_each_of_them(opcode, samples, monkeypatch):
    """On two classes of inputs in turn; on all of them it is compared with the kernels, operation by operation."""
    kinds = classes(VARIANTS[opcode])
    turn = list(VARIANTS).index(opcode)
    check_reference(opcode, {kinds[turn % len(kinds)], kinds[(turn + 3) % len(kinds)]}, samples, monkeypatch)


def test_a_difference_is_told_with_its_values():
    """The message is for the day on which something breaks; one bit of one register is turned over."""
    opcode = "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"
    instruction = VARIANTS[opcode]
    got = tcemu.run(opcode, *matrices(instruction, "near", 2))
    other = got.copy()
    other[1, 5, 1] ^= 0x8000
    text = difference(instruction, got, other)
    for words in (
        "warp 1, lane 5, register 1 (element (9, 2))",
        f"{got[1, 5, 1]:#x}",
        "the hardware answers",
        "1 registers differ",
    ):
        assert words in text
    assert difference(instruction, got, got) is None


# Published by others --------------------------------------------------------------------------------------------------
# Dot products by Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores" (arXiv 2512.07004).

GPUS = {
    "V100": "sm_70", "A100": "sm_80", "A2": "sm_86", "Ada": "sm_89", "L40S": "sm_89",
    "H100": "sm_90a", "H200": "sm_90a", "B200": "sm_100a",
}  # fmt: skip
TYPES = {"fp16": ("f16", np.float16), "bf16": ("bf16", ml_dtypes.bfloat16), "tf32": ("tf32", np.float32)}
TYPES |= {"E4M3": ("e4m3", ml_dtypes.float8_e4m3fn), "E5M2": ("e5m2", ml_dtypes.float8_e5m2)}
RESULTS = {"fp32": ("f32", np.float32), "fp16": ("f16", np.float16)}


def dot_products(instruction, a, b, c, target, dtypes):
    """d of many dot products a . b + c, eight at a time (four times eight) on the diagonal of the instruction."""
    fragments = instruction.fragments
    batch = fragments["d"].shape[:-2]
    tiles = -(-len(a) // (8 * int(np.prod(batch))))
    count, k = tiles * 8 * int(np.prod(batch)), instruction.shape.k
    i = np.arange(8)

    def spread(values):
        padded = np.zeros((count, *values.shape[1:]), values.dtype)
        padded[: len(values)] = values
        return padded.reshape(tiles, *batch, 8, *values.shape[1:])

    A = np.zeros((tiles, *fragments["a"].shape), dtypes[0])
    B = np.zeros((tiles, *fragments["b"].shape), dtypes[0])
    C = np.zeros((tiles, *fragments["c"].shape), dtypes[1])
    A[..., :8, :], B[...], C[..., i, i] = spread(a), np.swapaxes(spread(b), -1, -2), spread(c)
    assert a.shape[1] == k
    registers = [fragments[role].pack(matrix) for role, matrix in zip("abc", (A, B, C), strict=True)]
    D = fragments["d"].unpack(tcemu.run(instruction, *registers, target=target))
    return D[..., i, i].reshape(-1)[: len(a)]


VECTORS = [
    (gpu, kind, result)
    for gpu in GPUS
    for kind in (
        ("fp16",)
        if gpu == "V100"
        else ("fp16", "bf16", "tf32") + (("E4M3", "E5M2") if gpu not in ("A100", "A2") else ())
    )
    for result in (("fp32", "fp16") if kind in ("fp16", "E4M3", "E5M2") else ("fp32",))
    # fp8 into f32 was published from wgmma on these two, and into f16 not at all for the L40S
    if not (gpu in ("H100", "H200") and kind.startswith("E") and result == "fp32")
    if not (gpu == "L40S" and kind.startswith("E") and result == "fp16")
]


def operands_of(gpu, kind, result):
    """(a, b, c, d) as values; c was published in f32, and rounded where the instruction takes f16."""
    (_, dtype), (_, c_dtype) = TYPES[kind], RESULTS[result]
    a, b, c, d = published(gpu, kind, result)
    return a.view(dtype), b.view(dtype), c.view(np.float32).astype(c_dtype), d


@pytest.mark.parametrize(("gpu", "kind", "result"), VECTORS)
def test_what_other_gpus_answered(gpu, kind, result):
    (name, dtype), (accumulator, c_dtype) = TYPES[kind], RESULTS[result]
    a, b, c, expected = operands_of(gpu, kind, result)
    shape = "m8n8k4" if gpu == "V100" else f"m16n8k{a.shape[1]}"
    opcode = f"mma.sync.aligned.{shape}.row.col.{accumulator}.{name}.{name}.{accumulator}"
    instruction = tcemu.parse(opcode, target=GPUS[gpu])
    got = dot_products(instruction, a, b, c, GPUS[gpu], (dtype, c_dtype)).view(expected.dtype)
    wrong = np.flatnonzero(got != expected)
    assert not wrong.size, (
        f"{opcode} on {gpu}: {wrong.size} vectors differ, the first is {wrong[0]}: {got[wrong[0]]:#x}, "
        f"published {expected[wrong[0]]:#x}"
    )


def test_the_published_vectors_tell_architectures_apart():
    """A comparison that any architecture would pass proves nothing."""
    a, b, c, _ = operands_of("H100", "fp16", "fp32")
    instruction = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    answers = {
        target: dot_products(instruction, a, b, c, target, (np.float16, np.float32)) for target in ("sm_80", "sm_90")
    }
    assert (answers["sm_80"] != answers["sm_90"]).sum() > 10
