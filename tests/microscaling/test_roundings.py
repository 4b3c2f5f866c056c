"""How a block's largest magnitude becomes a scale, beside exact rationals and the bits that torchao manipulates."""

from fractions import Fraction

import numpy as np
import pytest

from tcemu import TcemuError
from tcemu.microscaling import KINDS, ROUNDINGS, dequantise, quantise

MX = [name for name, kind in KINDS.items() if kind.scale == "ue8m0"]
#: Largest element, and its exponent (OCP Microscaling 1.0, 5.3), and bits of the mantissa.
ELEMENTS = {
    "mxfp8_e4m3": (448, 8, 3), "mxfp8_e5m2": (57344, 15, 2), "mxfp6_e3m2": (28, 4, 2),
    "mxfp6_e2m3": (Fraction(15, 2), 2, 3), "mxfp4": (6, 2, 1),
}  # fmt: skip


def magnitudes(name):
    """Float32 around everything at which a rounding decides, and others."""
    largest, _, mantissa = ELEMENTS[name]
    edges = np.array([1, 1.5, 2 - 2.0 ** -(mantissa + 1), 2 - 2.0**-mantissa, largest, 500, 5.5, 7, 1e-20, 1e37], float)
    edges = (edges[:, None] * [2.0**-40, 1, 8]).ravel().astype(np.float32)
    up, down = np.nextafter(edges, np.float32(np.inf)), np.nextafter(edges, np.float32(0))
    some = np.exp2(np.random.default_rng(1).uniform(-30, 30, 300)).astype(np.float32)
    return np.unique(np.concatenate([edges, up, down, some]))


def rounded_up(name, magnitude):
    """The smallest power of two with which no element is above the largest, as an exponent."""
    largest, power = ELEMENTS[name][0], -127
    while power < 127 and Fraction(float(magnitude)) > largest * Fraction(2) ** power:
        power += 1
    return power


def by_bits(name, magnitude, rounding):
    """FLOOR, CEIL and EVEN as torchao computes them, on the bits of a float32."""
    _, emax, mantissa = ELEMENTS[name]
    bits = int(np.float32(magnitude).view(np.int32))
    if rounding == "even":
        bits = bits + (1 << (23 - mantissa - 1)) & 0x1FF << 23
    power = (bits >> 23 & 0xFF) - 127 + (rounding == "ceil" and bits & 0x7FFFFF > 0)
    return min(max(power - emax, -127), 127)


@pytest.mark.parametrize("name", MX)
def test_each_rounding_is_its_definition(name, row):
    found = magnitudes(name)
    blocks = np.zeros((found.size, 32))
    blocks[:, 7] = -found
    for rounding in ROUNDINGS:
        _, scales = quantise(blocks, name, rounding=rounding)
        powers = scales.view(np.uint8)[:, 0].astype(int) - 127
        for magnitude, power in zip(found, powers, strict=True):
            with row(f"{rounding} {magnitude}"):
                wanted = rounded_up(name, magnitude) if rounding == "rp" else by_bits(name, magnitude, rounding)
                assert power == wanted
    assert np.array_equal(quantise(blocks, name)[1], quantise(blocks, name, rounding="floor")[1])


@pytest.mark.parametrize("name", MX)
def test_rounded_up_nothing_saturates_and_float32_gives_the_same(name):
    """Libraries multiply by the float32 of 1 / largest before cvt.rp; the scale is the same."""
    found, largest = magnitudes(name), float(ELEMENTS[name][0])
    elements, scales = quantise(np.repeat(found[:, None], 32, axis=1), name, rounding="rp")
    quotient = found.astype(float) / scales.astype(float)[:, 0]
    assert (quotient <= largest).all()
    assert (np.abs(dequantise(elements, scales, name)[:, 0] - found) <= found * 2.0 ** -(ELEMENTS[name][2] + 1)).all()
    part, power = np.frexp((found * np.float32(1 / largest)).astype(float))
    assert np.array_equal(np.clip(power - 1 + (part > 0.5), -127, 127), scales.view(np.uint8)[:, 0].astype(int) - 127)


def test_published_blocks():
    """mxfp8 of 500: floor saturates to 448; up gives 2^1 and 512. mxfp4 of 7: 6, or 8."""
    for name, largest, rounding, back in (
        ("mxfp8_e4m3", 500, "floor", 448), ("mxfp8_e4m3", 500, "rp", 512), ("mxfp4", 7, "floor", 6),
        ("mxfp4", 7, "rp", 8), ("mxfp4", 5.5, "floor", 6), ("mxfp4", 5.5, "rp", 6),
    ):  # fmt: skip
        block = np.zeros((1, 32))
        block[0, 0] = largest
        assert dequantise(*quantise(block, name, rounding=rounding), name)[0, 0] == back


def test_a_block_of_zeros_and_one_beyond_the_scales():
    for rounding in ROUNDINGS:
        _, scales = quantise(np.array([[0.0] * 32, [1e-45] * 32]), "mxfp4", rounding=rounding)
        assert scales.view(np.uint8).ravel().tolist() == [0, 0]


def test_unknown_names_are_told(row):
    block = np.ones((1, 32))
    for name, given, says in (
        ("mxfp4", "RCEIL", "no rounding of scales is called 'RCEIL'. Did you mean 'rp'"),
        ("mxfp4", "up", "Did you mean 'rp'"),
        ("mxfp4", "floer", "Did you mean 'floor'.* They are floor, rp, ceil and even"),
        ("mxfp4", 3, "no rounding of scales is called 3"),
        ("nvfp4", "rp", "the scales of nvfp4 are ue4m3, rounded to nearest even"),
    ):
        with row(given), pytest.raises(TcemuError, match=says):
            quantise(block, name, rounding=given)
