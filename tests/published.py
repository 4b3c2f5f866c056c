"""Dot products that GPUs computed for others (tests/golden/published.npz; its source stands in the README there)."""

from functools import cache

import numpy as np
from places import GOLDEN

#: Terms of a dot product where they are not those of the format's other GPUs.
HOPPER = ("H100", "H200", "B200")
TERMS = {"fp16": 8, "bf16": 8, "tf32": 4, "E4M3": 32, "E5M2": 32}


@cache
def held():
    with np.load(GOLDEN / "published.npz") as file:
        return dict(file)


def published(gpu, form, result):
    """Patterns of a (n, k), of b (n, k), of c in f32 and of d = a . b + c as the GPU rounded it to `result`."""
    k = 4 if gpu == "V100" else 16 if gpu in HOPPER and form in ("fp16", "bf16") else TERMS[form]
    return (*(held()[f"{form}|k{k}|{x}"] for x in "ab"), held()[f"{gpu}|{form}|c"], held()[f"{gpu}|{form}|d|{result}"])
