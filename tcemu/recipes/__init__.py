"""Whose bits are these? Finds out from A, B and the result how a library computed a matrix product."""

from tcemu.recipes.apart import separate
from tcemu.recipes.probe import Order, order_of, probe
from tcemu.recipes.product import multiply
from tcemu.recipes.recipe import Recipe
from tcemu.recipes.search import whose_bits
from tcemu.recipes.snippets import snippet
from tcemu.recipes.verdict import Match, Verdict

__all__ = [
    "Match",
    "Order",
    "Recipe",
    "Verdict",
    "multiply",
    "order_of",
    "probe",
    "separate",
    "snippet",
    "whose_bits",
]
