"""The rows of the arithmetic table in words: one line for tables, and sentences for a learner."""

from __future__ import annotations

from functools import singledispatch

from tcemu.arithmetic.model import ADDEND, BitDot, FmaChain, FmaGroups, FusedSums, IntegerDot, Model, ScaledSums
from tcemu.arithmetic.table import Known
from tcemu.errors import counted, listing

#: What each word of `known` means.
KNOWN: dict[Known, str] = {
    "silicon": "compared with this project's recordings of the hardware: inputs of every class, no bit differs",
    "published silicon": "agrees with published GPU outputs; their values are near 1, so the edges are not proven",
    "paper": "taken from a published model or measurement; not compared with hardware here",
    "inferred": "our conclusion from a related chip; not measured, and it may be wrong",
}


@singledispatch
def in_words(model: Model, depth: int) -> str:
    """What a model does with `depth` products, in one line."""
    raise TypeError(model, depth)


@singledispatch
def in_sentences(model: Model, depth: int, d: str) -> str:
    """What a model does with `depth` products to give a result in format `d`, in a few sentences."""
    raise TypeError(model, depth, d)


# ---------------------------------------------------------------------------------------------------- fused sums


@in_words.register
def _(model: FusedSums, depth: int) -> str:
    sums = model.sums(depth)
    how = f"{counted(len(sums), 'fused sum')} of {len(sums[0])} products"
    through = f", operands as {model.through}" if model.through else ""
    addend = "" if model.addend == "first" else ", c added last"
    taken = "" if model.widen else ", an f16 c not widened"
    return f"{how}{through}, {model.fraction} bits kept{addend}{taken}"


@in_sentences.register
def _(model: FusedSums, depth: int, d: str) -> str:
    sums, last = model.sums(depth), model.addend == "last"
    products = f"{len(sums[0])} products"
    if len(sums) == 1 and not last:
        chain = f"An element of D is one fused sum of {products} and c."
    else:
        order = " (first those with k mod 4 = 0 and 1, then the others)" if model.order == "pairs" else ""
        start = "The chain starts from +0" if last else "c is an addend of the first sum"
        end = ", and c is added at the end, rounded to nearest even." if last else "."
        chain = f"An element of D is a chain of {counted(len(sums), 'fused sum')} of {products}{order}. {start}, the "
        chain += f"result of each sum is an addend of the next{end}"
    through = f"The operands are first converted to {model.through}, exactly. " if model.through else ""
    taken = "" if model.widen else " An f16 c is not widened first, so a subnormal one has exponent -14."
    return f"{through}{chain} {_fused(model, model.via or d)}{taken}{_via(model, d)}"


def _via(model: FusedSums, d: str) -> str:
    return f" The result is then rounded to {d}, to nearest even." if model.via and model.via != d else ""


def _fused(model: FusedSums, form: str) -> str:
    """The steps of one fused sum with a result in `form`."""
    toward = "toward zero" if form == "f32" else "to nearest even"
    floor = f" (never below 2^{model.floor})" if model.floor is not None else ""
    keep = f" with {model.keep} fraction bits" if model.keep is not None else ""
    return (
        "In a fused sum the products are exact; the exponent of a product is the sum of its factors' exponents. All "
        f"terms are aligned to the largest exponent{floor}, truncated {model.fraction} bits after its binary point, "
        f"added exactly, and the sum is rounded once, {toward}, to {form}{keep}."
    )


@in_words.register
def _(model: ScaledSums, depth: int) -> str:
    return f"{counted(-(-depth // (model.block or depth)), 'fused sum')} of scaled products, {model.fraction} bits kept"


@in_sentences.register
def _(model: ScaledSums, depth: int, d: str) -> str:
    block = model.block or depth
    sums = -(-depth // block)
    terms = "products" if model.group == 1 else f"groups of {model.group} products, each added exactly,"
    chain = "one fused sum" if sums == 1 else f"a chain of {sums} fused sums"
    floor = f" (never below 2^{model.floor})" if model.floor is not None else ""
    return (
        f"An element of D is {chain} of {block} products and c; the scales' exponents are added to those of their "
        f"products. In a fused sum, the {terms} and c are aligned to the largest exponent{floor}, truncated "
        f"{model.fraction} bits after its binary point, added exactly, and the sum is rounded once, toward zero, to "
        f"{d}.{_CANCELLED if model.group > 1 else ''}"
    )


_CANCELLED = (
    " The exponent of a group is that of its scales, even if its products cancel; a group does not count in the search "
    "for the largest exponent if all its products or a scale are zero."
)


# ---------------------------------------------------------------------------------------------------- the others


@in_words.register
def _(model: FmaGroups, depth: int) -> str:
    chains = len(model.groups)
    return f"{counted(chains, 'chain')} of {depth // chains} f32 multiply-adds, and c"


@in_sentences.register
def _(model: FmaGroups, depth: int, d: str) -> str:
    chains = [f"chain {number} multiplies k = {listing(ks, 'and')}" for number, ks in enumerate(model.groups, 1)]
    added = listing(["c" if part == ADDEND else f"chain {part + 1}" for part in model.order], "and")
    start = f"{'each ' * (len(chains) > 1)}starting from {'+0' if model.from_zero else 'its first product'}"
    which = f" ({'; '.join(chains)})" if len(chains) > 1 else ""
    return (
        f"The tensor cores are not used: {counted(len(chains), 'chain')} of f32 fused multiply-adds on the ordinary "
        f"cores{which}, {start}. Then {added} are added in this order. Every step is rounded to nearest even, and the "
        f"last result to {d}."
    )


@in_words.register
def _(_model: FmaChain, depth: int) -> str:
    return f"a chain of {depth} f64 multiply-adds"


@in_sentences.register
def _(_model: FmaChain, depth: int, d: str) -> str:
    return (
        f"An element of D starts as c and takes {depth} fused multiply-adds, one for each k in ascending order, each "
        "rounded as the instruction says or, by default, to nearest even (IEEE binary64)."
    )


@in_words.register
def _(_model: IntegerDot, depth: int) -> str:
    return f"the exact sum of {depth} products"


@in_sentences.register
def _(_model: IntegerDot, depth: int, d: str) -> str:
    return (
        f"An element of D is the exact sum of {depth} products and c. A sum that does not fit {d} wraps; with "
        ".satfinite it is clamped, once, at the end."
    )


@in_words.register
def _(_model: BitDot, depth: int) -> str:
    return f"the number of ones among {depth} bits"


@in_sentences.register
def _(_model: BitDot, depth: int, d: str) -> str:
    return (
        f"The {depth} bits of a row of A and of a column of B are combined with the operation in the opcode; the "
        "number of ones, plus c, is the element of D. It wraps to 32 bits."
    )
