"""tcgen05.mma against MMA-Sim 2.1.1, whose authors compared it with a B200: every kind and every pair of types.

peers/mmasim-2.1.1-tcgen05.json.xz has one dot product of each class of inputs: narrow, wide, any bits, sums that
cancel, and products at the floor.
"""

import json
import lzma
from pathlib import Path

import numpy as np
import pytest

import tcemu
from tcemu.errors import ArithmeticUnknown, OperandError
from tcemu.formats import lookup
from tcemu.instructions.tcgen05_product import Product
from tcemu.layouts import instruction_descriptor

HELD = Path(__file__).parent / "peers" / "mmasim-2.1.1-tcgen05.json.xz"
OUTPUTS = {name: held for name, held in json.loads(lzma.decompress(HELD.read_bytes())).items() if name != "about"}


def product(name, m=128):
    """The product that a name stands for: "kind::mxf4.block32.f32.e2m1.e2m1.ue8m0"."""
    kind, *block, d, a, b, scale = [*name.split("."), *([""] if name.count(".") == 3 else [])]
    opcode = f"tcgen05.mma.cta_group::1.{kind}{f'.block_scale.{block[0]}' if block else ''}"
    bits = instruction_descriptor(m, 64, kind=kind, d=d, a=a, b=b, scale_type=scale)
    return Product.of(tcemu.parse(opcode), bits, "sm_100a")


def patterns(texts, form):
    return np.vectorize(lambda text: int(text, 16))(np.array(texts)).astype(lookup(form).storage)


def outputs(name):
    """What the table computes, and what MMA-Sim did."""
    made, held = product(name), OUTPUTS[name]
    found = made.descriptor
    a, b = (patterns(held[role], getattr(found, role)) for role in "ab")
    c, d = (patterns(held[role], found.d) for role in "cd")
    scales = {}
    if made.kind.scaled:
        left, right = (patterns(held[role], found.scale_type) for role in ("scale_a", "scale_b"))
        scales = {"scale_a": left[:, None, :], "scale_b": right[:, :, None]}
    return made.compute(a[:, None, :], b[:, :, None], c[:, None, None], **scales)[:, 0, 0], d


@pytest.mark.parametrize("backend", ["numba", "arrays"])
def test_products_are_those_of_mma_sim(row, backend, monkeypatch):
    monkeypatch.setattr("tcemu.backend._State.chosen", backend)
    assert len(OUTPUTS) == 83
    for name in OUTPUTS:
        with row(name):
            found, expected = outputs(name)
            assert found.tolist() == expected.tolist()


def test_a_model_with_one_bit_less_differs(monkeypatch):
    """The vectors can tell: the table with one fraction bit less does not give them."""
    from dataclasses import replace

    name = "kind::f16.f32.f16.f16"
    row = product(name).row
    monkeypatch.setattr(Product, "row", replace(row, model=replace(row.model, fraction=row.model.fraction - 1)))
    found, expected = outputs(name)
    assert found.tolist() != expected.tolist()


def test_signs_saturation_and_the_old_d():
    """What the descriptor says besides the types: exact cases."""
    a, b = np.full((1, 1, 16), 0x3C00, np.uint16), np.full((1, 16, 1), 0x4000, np.uint16)  # 1 and 2
    d = np.full((1, 1, 1), np.float32(5).view(np.uint32))
    opcode = tcemu.parse("tcgen05.mma.cta_group::1.kind::f16")
    for negated, enable_d, expected in (("", True, 37), ("", False, 32), ("a", True, -27), ("b", False, -32)):
        flags = {f"negate_{negated}": True} if negated else {}
        made = Product.of(opcode, instruction_descriptor(128, 64, **flags), "sm_100a")
        assert made.compute(a, b, d, enable_d=enable_d).view(np.float32).item() == expected
    whole = tcemu.parse("tcgen05.mma.cta_group::1.kind::i8")
    a, b = np.full((1, 1, 32), 127, np.uint8), np.full((1, 32, 1), 127, np.uint8)
    d = np.full((1, 1, 1), 2**31 - 1, np.uint32)
    for saturate, expected in ((True, 2**31 - 1), (False, 2**31 - 1 + 32 * 127**2 - 2**32)):
        made = Product.of(whole, instruction_descriptor(128, 64, kind="i8", a="s8", saturate=saturate), "sm_100a")
        assert made.compute(a, b, d).view(np.int32).item() == expected


def test_what_nobody_knows_is_refused_by_name():
    made = product("kind::f16.f32.f16.f16")
    a, b, d = np.zeros((1, 1, 16), np.uint16), np.zeros((1, 16, 1), np.uint16), np.zeros((1, 1, 1), np.uint32)
    with pytest.raises(ArithmeticUnknown, match="nobody has published how the hardware rounds a D that scale_input_d"):
        made.compute(a, b, d, scale_d=3)
    with pytest.raises(OperandError, match="a sparse A needs stored_k, a dense one takes none"):
        made.compute(a, b, d, stored_k=np.zeros((1, 1, 16), np.int64))
    longer = tcemu.parse("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16")
    with pytest.raises(ArithmeticUnknown, match="where the scales of K = 96 lie has not been published"):
        Product.of(longer, instruction_descriptor(128, 64, kind="mxf4nvf4", k96=True), "sm_103a")
    rubin = Product.of(made.instruction, instruction_descriptor(128, 64), "sm_107a")
    with pytest.raises(ArithmeticUnknown, match=r"it is not known how sm_107 computes tcgen05\.mma m128n64k16"):
        rubin.compute(a, b, d)


def test_a_sparse_product_is_the_dense_one_over_what_is_stored():
    opcode = tcemu.parse("tcgen05.mma.sp.cta_group::1.kind::f16")
    made = Product.of(opcode, instruction_descriptor(128, 64, sparse=True), "sm_100a")
    assert (made.stored, made.pattern.chunk, made.row.known) == (16, 4, "inferred")
    dice = np.random.default_rng(3)
    a, b = (dice.integers(0, 0x7000, shape).astype(np.uint16) for shape in ((1, 4, 16), (1, 32, 3)))
    places = np.sort(dice.permuted(np.tile(np.arange(4), (1, 4, 8, 1)), axis=-1)[..., :2], axis=-1)
    places = (places + 4 * np.arange(8)[:, None]).reshape(1, 4, 16)
    d = np.zeros((1, 4, 3), np.uint32)
    dense = product("kind::f16.f32.f16.f16")
    found = made.compute(a, b, d, stored_k=places)
    for line in range(4):
        expected = dense.compute(a[:, line : line + 1], b[:, places[0, line]], d[:, :1])
        assert found[:, line : line + 1].tolist() == expected.tolist()
