"""Products that libraries computed on a GPU: the golden files, and the inputs, which are made from seeds."""

import json
from functools import cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from places import GOLDEN

from tcemu.formats import lookup

Array = npt.NDArray[Any]


@cache
def recorded() -> dict[str, Any]:
    """The file: versions, and the products, each with shape, types, seed, recipe and the SHA-256 of D's bytes."""
    found: dict[str, Any] = json.loads((GOLDEN / "sm_90a-products.json").read_text())
    return found


@cache
def elements() -> dict[str, Array]:
    """D at the rows and columns of `sample`, by the product's name, for some products."""
    with np.load(GOLDEN / "sm_90a-products.npz") as stored:
        return {name: stored[name] for name in stored.files}


def inputs(product: dict[str, Any]) -> tuple[Array, Array]:
    """A and B of a recorded product."""
    m, n, k, seed = (product[name] for name in ("M", "N", "K", "seed"))
    return _drawn(seed, (m, k), product["a"]), _drawn(seed + 1, (k, n), product["b"])


def addend(product: dict[str, Any]) -> dict[str, Any]:
    """C, of A's type, with alpha and beta, as keyword arguments of `multiply`; none if the product has no C."""
    if "c" not in product:
        return {}
    c = _drawn(product["seed"] + 2, tuple(product["c"]), product["a"])
    return {"c": c, "alpha": product.get("alpha", 1.0), "beta": product.get("beta", 1.0)}


def sample(product: dict[str, Any]) -> tuple[Array, Array]:
    """The rows and columns whose elements are stored, the last ones among them."""
    words = _words(product["seed"] + 10**6, 32)
    return _spread(product["M"], words[:15]), _spread(product["N"], words[16:31])


def _spread(size: int, words: Array) -> Array:
    return np.arange(size) if size <= 16 else np.unique([size - 1, *(words % np.uint64(size)).astype(int)])


def _words(seed: int, count: int) -> Array:
    """64-bit words that numpy promises never to change."""
    words: Array = np.random.PCG64(seed).random_raw(count)
    return words


def _drawn(seed: int, shape: tuple[int, ...], kind: str) -> Array:
    """Numbers with a random sign and mantissa and one of 8 exponents, 6 for fp8; bytes of integers."""
    words, form = _words(seed, prod(shape)), lookup(kind)
    if form.kind != "float":
        return (words >> np.uint64(20)).astype(np.uint8).view(np.int8).reshape(shape)
    low, many = (4, 6) if form.bits == 8 else (6, 8)
    exponent = np.uint64(form.bias - low) + ((words >> np.uint64(54)) & np.uint64(63)) % np.uint64(many)
    mantissa = words & np.uint64((1 << form.mantissa) - 1)
    sign = ((words >> np.uint64(60)) & np.uint64(1)) << np.uint64(form.bits - 1)
    return form.matrix((sign | exponent << np.uint64(form.mantissa) | mantissa).astype(form.storage)).reshape(shape)
