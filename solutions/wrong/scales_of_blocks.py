"""Wrong answers of notebook 09 about the scales of blocks, with words that the diagnosis contains."""

import numpy as np

from tcemu import formats

# ---------------------------------------------------------------------------------------------- scales


def rule_of_mx(blocks):
    """The floor of the MX specification."""
    return (np.floor(np.log2(np.abs(blocks).max(axis=1))) - 8 + 127).astype(np.uint8)


def rule_of_mx_and_one(blocks):
    """The floor, and one more to be safe."""
    return rule_of_mx(blocks) + np.uint8(1)


def one_for_all(blocks):
    """The largest magnitude of all blocks."""
    scale = np.ceil(np.log2(np.abs(blocks).max() / 448)) + 127
    return np.full(len(blocks), scale).astype(np.uint8)


def without_bias(blocks):
    """The exponent itself, in eight bits."""
    return np.ceil(np.log2(np.abs(blocks).max(axis=1) / 448)).astype(np.int64).astype(np.uint8)


def by_value(blocks):
    """abs forgotten."""
    return (np.ceil(np.log2(blocks.max(axis=1) / 448)) + 127).astype(np.uint8)


def next_power(blocks):
    """As if 256 were the largest e4m3."""
    return (np.ceil(np.log2(np.abs(blocks).max(axis=1))) - 8 + 127).astype(np.uint8)


def reciprocal(blocks):
    """What the elements are multiplied by."""
    return (127 - np.ceil(np.log2(np.abs(blocks).max(axis=1) / 448))).astype(np.uint8)


# ---------------------------------------------------------------------------------------------- NVFP4


def _quantised(blocks, scale, exact=False):
    e2m1, ue4m3 = formats.lookup("e2m1"), formats.lookup("ue4m3")
    wide = blocks.astype(np.float64)
    wanted = scale(wide)
    scales = ue4m3.encode(wanted, satfinite=True)
    divisor = wanted if exact else ue4m3.decode(scales)
    with np.errstate(divide="ignore"):
        return e2m1.encode(wide / divisor[:, None], satfinite=True), scales


def exact_divisor(blocks):
    """Divided before the scale is rounded."""
    return _quantised(blocks, lambda wide: np.abs(wide).max(axis=1) / 6, exact=True)


def power_of_two(blocks):
    """The rule of MXFP4."""
    return _quantised(blocks, lambda wide: 2.0 ** (np.floor(np.log2(np.abs(wide).max(axis=1))) - 2))


def largest_value(blocks):
    """abs forgotten."""
    return _quantised(blocks, lambda wide: wide.max(axis=1) / 6)


def largest_scale(blocks):
    """448 taken for the largest element."""
    return _quantised(blocks, lambda wide: np.abs(wide).max(axis=1) / 448)


def one_scale(blocks):
    """That of the largest number of all."""
    return _quantised(blocks, lambda wide: np.full(len(wide), np.abs(wide).max() / 6))


def unsigned(blocks):
    """The signs masked away."""
    elements, scales = _quantised(blocks, lambda wide: np.abs(wide).max(axis=1) / 6)
    return elements & 7, scales


# ---------------------------------------------------------------------------------------------- MXFP4 wins


def _normal():
    return np.random.default_rng(1).normal(size=32).astype(np.float32)


def _sixes():
    return np.tile(np.array([6, 3, 2, 1], np.float32), 8)


def _saturated():
    return np.tile(np.array([7, 3, 2, 1], np.float32), 8)


def _zeros():
    return np.zeros(32, np.float32)


WRONG = {
    "scales_without_overflow": [
        (rule_of_mx, "the rule of the MX formats"),
        (rule_of_mx_and_one, "one step above the MX rule's scale"),
        (one_for_all, "each block has its own"),
        (without_bias, "the exponent without the bias"),
        (by_value, "not the largest magnitude"),
        (next_power, "the largest e4m3 is 448, not 256"),
        (reciprocal, "this is the reciprocal"),
    ],
    "quantise_to_nvfp4": [
        (exact_divisor, "before it was rounded"),
        (power_of_two, "the rule of the MX formats"),
        (largest_value, "not the largest magnitude"),
        (largest_scale, "448, the largest scale"),
        (one_scale, "each block has its own"),
        (unsigned, "signs of the elements are lost"),
    ],
    "where_mxfp4_wins": [
        (_normal, "it should hold the row exactly"),
        (_sixes, "is a ue4m3 itself"),
        (_saturated, "the largest magnitude saturates"),
        (_zeros, "all numbers are zero"),
    ],
}
