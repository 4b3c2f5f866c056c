"""Recipes of matrix products: against products that libraries computed, and against each other."""

import hashlib
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import products
import pytest
from quick import some, spread, turn
from rows import rows

import tcemu
from tcemu.errors import ArithmeticUnknown, OperandError
from tcemu.recipes import Recipe, multiply, order_of, probe, search, separate, snippet, whose_bits
from tcemu.recipes.candidates import BASES, blocks, emulated, sliced, trials, types_of, unaligned, walks
from tcemu.recipes.elements import Elements
from tcemu.recipes.epilogue import Epilogue, joined
from tcemu.recipes.inputs import CONVERSIONS
from tcemu.recipes.likely import likely
from tcemu.recipes.order import chains, splits
from tcemu.recipes.reductions import reduced
from tcemu.recipes.verdict import Match, Verdict

F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
TF32 = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"


def drawn(kind, shape, seed=0):
    form = tcemu.formats.lookup(kind)
    values = np.random.default_rng(seed).standard_normal(shape) * 4
    if form.kind != "float":
        values = (values if form.signed else np.abs(values)).astype(int)
    return form.matrix(form.encode(values, satfinite=form.kind != "float"))


def small(product):
    return product["M"] * product["N"] * product["K"] <= 1 << 24


KNOWN = [product for product in products.recorded()["products"] if product["recipe"]]


def gives_every_bit(product):
    given = multiply(Recipe.parse(product["recipe"]), *products.inputs(product), **products.addend(product))
    assert hashlib.sha256(given.tobytes()).hexdigest() == product["sha256"]


@rows("product", some([p for p in KNOWN if small(p)], 12), ids=lambda product: product["name"])
@pytest.mark.slow
def test_the_recipe_gives_every_bit_of_what_a_library_computed(product):
    gives_every_bit(product)


@pytest.mark.slow
@rows("product", spread([p for p in KNOWN if not small(p)], 9, turn(9)), ids=lambda product: product["name"])
def test_the_recipe_gives_every_bit_of_a_large_product(product):
    gives_every_bit(product)


def is_found(name):
    """The search finds recipes of the stored elements, one of them for the recipe's target."""
    product = next(each for each in products.recorded()["products"] if each["name"] == name)
    (a, b), (m, n) = products.inputs(product), products.sample(product)
    d = products.elements()[name].view(tcemu.formats.lookup(product["d"]).dtype)
    plus = products.addend(product)
    if plus:
        plus["c"] = plus["c"][n] if plus["c"].ndim == 1 else plus["c"][np.ix_(m, n)]
    verdict = whose_bits(a[m], b[:, n], d, **plus)
    assert verdict.exact, str(verdict)
    assert Recipe.parse(product["recipe"]).target in {each.target for each in verdict.recipes}


@pytest.mark.slow
@rows("name", some(spread(products.elements(), 6, turn(6)), 8))
def test_the_search_finds_a_recipe_of_elements_that_a_library_computed(name, monkeypatch):
    monkeypatch.setattr(search, "_SURVEY", 0)  # the next test tries the rest of the table, too, which takes most time
    is_found(name)


@pytest.mark.slow
@rows("name", some(spread(products.elements(), 26, turn(26)), 1))
def test_the_search_finds_it_among_all_that_the_table_has(name):
    is_found(name)


def test_at_least_98_percent_of_the_recorded_products_are_explained():
    everything = products.recorded()["products"]
    assert len(everything) >= 700
    assert len(KNOWN) >= 0.98 * len(everything)


@rows("product", KNOWN, ids=lambda product: product["name"])
def test_a_recipe_is_a_line_that_can_be_read_again(product):
    assert str(Recipe.parse(product["recipe"])) == product["recipe"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "a recipe must be an instruction, a target and words such as splits=4; got ''"),
        (f"{F16} sm_90a split=4", "no part of a recipe is called 'split'. Did you mean 'splits'?"),
        (f"{F16} sm_90a splits=four", "a recipe's splits must be a whole number; got 'four'"),
        (f"{F16} sm_90a splits=0", "a recipe's splits must be a whole number, at least 1; got 0"),
        (f"{F16} sm_90a splits={1 << 30}", "a recipe's splits must be at most 65,535; got 1073741824"),
        (f"{TF32} sm_90a inputs=rnd", "a recipe's inputs must be"),
        (f"{F16} sm_90a slices=2", "this recipe needs a tile"),
        (f"{F16} sm_90a splits=4 reduce=2:2", "the reduction 2:2 leaves 2 of 4 sums"),
        (f"{F16} sm_90a tile=16 order=t8h2p2>htp", "covers 32 k, so the tile must be 32; got 16"),
        (f"{F16} sm_90a tile=16 order=htp", "an order of k must name digits with their sizes"),
    ],
)
def test_a_wrong_recipe_says_what_is_wrong(line, says):
    with pytest.raises(OperandError, match=says.replace("?", r"\?").replace(".", r"\.")):
        Recipe.parse(line)


def schedules(base, depth):
    """A few of the ways that the table has for a base."""
    yield from walks(base, depth)
    for ways in (blocks, sliced, unaligned):
        yield from list(ways(base, depth))[:40:13]


@rows("base", some(BASES, 12), ids=lambda base: f"{base.a} {base.b} {base.recipe}")
@pytest.mark.slow
def test_sums_at_single_elements_are_those_of_the_whole_product(base):
    depth = 40 if not base.recipe.tile else 64
    a, b = drawn(base.a, (3, depth)), drawn(base.b, (depth, 2), 1)
    for recipe in schedules(base.recipe, depth):
        d = multiply(recipe, a, b)
        i, j = np.indices(d.shape).reshape(2, -1)
        assert [each.share for each in Elements.of(a, b, d, None, i, j).tried([recipe])] == [1.0], recipe


def test_f32_from_parts_is_more_exact_the_more_parts_there_are():
    a, b = drawn("f32", (8, 64)), drawn("f32", (64, 8), 1)
    exact = a.astype(float) @ b.astype(float)
    by_parts = {each.inputs: multiply(each, a, b) for each in emulated("f32", "f32", "f32", 64) if each.tile == 32}
    errors = {inputs: np.abs(d - exact).max() for inputs, d in by_parts.items()}
    assert errors["bf16x3"] > 4 * errors["bf16x6"]
    assert errors["bf16x3"] > 4 * errors["tf32x3"]


@pytest.mark.parametrize("fused", ["c", "sum", "none"])
def test_alpha_and_c_join_with_one_rounding_less(fused):
    rng = np.random.default_rng(3)
    total, c = rng.standard_normal((2, 500)).astype(np.float32)
    given = joined(total, Epilogue(0.7, 1.3, c), Recipe("fma.rn.f32", fused=fused))
    alpha, beta = np.float32(0.7), np.float32(1.3)
    left, right = (alpha * total if fused != "sum" else None), (beta * c if fused != "c" else None)
    for i in range(500):
        x = Fraction(float(left[i])) if left is not None else Fraction(float(alpha)) * Fraction(float(total[i]))
        y = Fraction(float(right[i])) if right is not None else Fraction(float(beta)) * Fraction(float(c[i]))
        error = abs(Fraction(float(given[i])) - (x + y))
        for beside in (np.nextafter(given[i], np.float32(np.inf)), np.nextafter(given[i], np.float32(-np.inf))):
            assert error <= abs(Fraction(float(beside)) - (x + y))


@pytest.mark.parametrize(
    ("kind", "recipe"),
    [
        ("f16", Recipe(F16, splits=2)),
        ("f32", Recipe(TF32, inputs="rna", splits=4, reduce="2:2,1:2")),
        ("f32", Recipe("fma.rn.f32", tile=8, slices=2)),
        ("bf16", Recipe(F16.replace("f16.f16", "bf16.bf16"), tile=16, residue="first")),
    ],
)
def test_a_probe_shows_in_which_sum_two_k_meet(kind, recipe):
    a, b = probe(kind, 200, 200, 72 if recipe.residue == "first" else 64)
    order = order_of(a, b, multiply(recipe, a, b), kind)
    pairs = [(int(i), int(j)) for i in order.first for j in order.second]
    sizes = dict(zip(pairs, order.sizes.reshape(-1).tolist(), strict=True))
    if recipe.residue == "first":  # 72 is 4 tiles of 16 after one of 8
        assert (sizes[0, 7], sizes[0, 8], sizes[8, 23], sizes[0, 71]) == (8, 24, 24, 72)
    elif recipe.reduce:  # splits of 16: 0 meets 2, then both meet 1 and 3
        assert (sizes[0, 7], sizes[0, 8], sizes[0, 32], sizes[0, 16], sizes[16, 48]) == (8, 16, 32, 64, 32)
    elif recipe.slices > 1:  # tiles of 8 in turn
        assert (sizes[0, 1], sizes[0, 7], sizes[0, 16], sizes[0, 8], sizes[8, 9]) == (2, 8, 9, 64, 2)
    else:  # two splits of 32
        assert (sizes[0, 15], sizes[0, 16], sizes[0, 32], sizes[32, 40]) == (16, 32, 64, 16)


def test_what_is_no_probe_shows_no_order():
    a, b = drawn("f32", (16, 16)), drawn("f32", (16, 16), 1)
    assert order_of(a, b, a @ b, "f32") is None


def test_recipes_with_the_same_bits_are_told_apart_by_another_input():
    a = np.ones((4, 64), np.float16)
    verdict = whose_bits(a, a.T, multiply(Recipe(F16), a, a.T))
    assert len(verdict.recipes) > 1
    one, other, x, y = verdict.apart()
    assert multiply(one, x, y) != multiply(other, x, y)
    assert "tells them apart" in str(verdict)


@pytest.mark.parametrize(
    ("kinds", "recipe"),
    [
        (("e4m3", "e5m2"), Recipe(F16, inputs="f16")),
        (("bf16", "bf16"), Recipe("fma.rn.f32", inputs="f32")),
        (("f32", "f32"), Recipe(TF32, inputs="rna", tile=32)),
    ],
)
def test_types_that_are_converted_first_are_told_apart_by_an_input_of_these_types(kinds, recipe):
    a, b = drawn(kinds[0], (1, 64)), drawn(kinds[1], (64, 1), 1)
    d = multiply(recipe, a, b)
    others = [replace(recipe, splits=2), replace(recipe, splits=4)]
    verdict = Verdict([Match(each, 1.0, None, None, 1) for each in others], [], a, b, d)
    one, other, x, y = verdict.apart()
    assert (x.dtype, y.dtype) == (a.dtype, b.dtype)
    assert multiply(one, x, y) != multiply(other, x, y)


def test_recipes_are_told_apart_by_types_that_both_take():
    fp8 = Recipe("wgmma.mma_async.sync.aligned.m64n8k32.f32.e5m2.e4m3")
    x, y = separate(fp8, Recipe(F16, inputs="f16"), 64)
    assert (x.dtype, y.dtype) == (drawn("e5m2", (1, 1)).dtype, drawn("e4m3", (1, 1)).dtype)
    with pytest.raises(OperandError, match="so no input fits both"):
        separate(fp8, Recipe(F16), 64)
    with pytest.raises(OperandError, match="both take matrices of e5m2 and e4m3; got e4m3 and e4m3"):
        separate(fp8, Recipe(F16, inputs="f16"), 64, types=("e4m3", "e4m3"))


def test_nothing_tells_two_names_of_the_same_sums_apart():
    assert separate(Recipe(F16), Recipe("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"), 64, tries=2) is None


def test_bits_of_nobody_come_with_the_nearest_recipes_and_a_picture():
    a, b = drawn("f16", (16, 64)), drawn("f16", (64, 8), 1)
    d = multiply(Recipe(F16), a, b)
    d[3, 4] = np.nextafter(d[3, 4], np.float32(np.inf))
    verdict = whose_bits(a, b, d)
    assert not verdict.exact
    assert verdict.matches[0].recipe == Recipe(F16)
    assert verdict.matches[0].first == (3, 4)
    assert "first differs at D[3][4]" in str(verdict)
    assert "which differs" in verdict.picture().description
    with pytest.raises(OperandError, match="D is 16 x 8 and has no element"):
        verdict.picture(16, 0)


def test_a_picture_shows_where_sums_start_again():
    a, b = drawn("f16", (4, 64)), drawn("f16", (64, 4), 1)
    verdict = whose_bits(a, b, multiply(Recipe(F16, splits=2), a, b))
    assert verdict.recipes[0] == Recipe(F16, every=32)
    words = verdict.picture().description
    assert "(k 0-31)" in words
    assert "(k 32-63)" in words
    assert "differs" not in words


def test_one_wrong_bit_in_the_last_row_of_a_long_product_is_found():
    a, b = drawn("f16", (4096, 16)), drawn("f16", (16, 8), 1)
    d = multiply(Recipe(F16), a, b)
    d[4095, 7] = np.nextafter(d[4095, 7], np.float32(np.inf))
    verdict = whose_bits(a, b, d)
    assert not verdict.exact
    assert verdict.matches[0].first == (4095, 7)
    assert verdict.matches[0].compared == d.size


def test_a_search_that_stops_early_says_so():
    a, b = drawn("f16", (4, 64)), drawn("f16", (64, 4), 1)
    d = multiply(Recipe(F16, splits=2), a, b) + np.float32(1)
    assert "`effort` stopped the search" in str(whose_bits(a, b, d, effort=1))


@pytest.mark.parametrize(
    ("count", "way", "total"),
    [
        (4, "", "((0+1)+2)+3"),
        (4, "2:2,1:2", "(0+2)+(1+3)"),
        (6, "2:3,1:2", "((0+2)+4)+((1+3)+5)"),
        (5, "1:2,2:3", "((0+1)+(2+3))+4"),
        (3, "halves", "(2+0)+1"),
        (7, "halves", "(((6+(0+4))+(1+5))+2)+3"),
        (1, "halves", "0"),
    ],
)
def test_sums_are_added_in_the_order_that_a_reduction_says(count, way, total):
    sums = np.random.default_rng(count).standard_normal((count, 500)).astype(np.float32)
    expected = eval(re.sub(r"\d", lambda digit: f"sums[{digit[0]}]", total))  # noqa: S307
    assert np.array_equal(reduced(sums, way), expected)


@pytest.mark.parametrize(
    ("recipe", "depth", "expected"),
    [
        # the first round of 8 k is short, and the first slice has all of it
        (Recipe("fma.rn.f32", tile=4, slices=2, residue="first"), 11, [[0, 1, 2, 3, 4, 5, 6], [7, 8, 9, 10]]),
        (Recipe("fma.rn.f32", tile=2, slices=3), 8, [[0, 1, 6, 7], [2, 3], [4, 5]]),
    ],
)
def test_slices_take_tiles_in_turn(recipe, depth, expected):
    assert [ks.tolist() for ks in splits(recipe, depth)[0]] == expected


def test_cutlass_starts_its_sums_again_one_instruction_late():
    recipe = Recipe(TF32, inputs="3xtf32", tile=16, residue="first", every=16, lead=8)
    small = [[k % 24 for k in chain if k >= 0] for chain in chains(recipe, np.arange(24), 8, 24)]
    assert [sorted(set(ks)) for ks in small] == [[*range(8)], [*range(8, 16)], [*range(16, 24)]]


@pytest.mark.parametrize("inputs", ["", "rn", "bf16", "bf16x3"])
def test_the_size_of_errors_tells_how_factors_were_rounded(inputs):
    a, b = drawn("f32", (64, 48)), drawn("f32", (64, 48), 1)
    by = {"": "fma.rn.f32", "rn": TF32}.get(inputs, F16.replace("f16.f16", "bf16.bf16"))
    d = np.diagonal(multiply(Recipe(by, inputs=inputs, tile=16), a, b.T))
    found = likely(a, b, d, None, CONVERSIONS)
    assert inputs in found
    assert not found & ({"", "rn", "bf16", "bf16x3"} - {inputs})


@pytest.mark.slow
def test_a_search_is_not_misled_by_recipes_that_give_nearly_all():
    """fp8 sums are nearly exact in f32: most recipes give most of D."""
    a, b = drawn("e4m3", (128, 256)), drawn("e4m3", (256, 128), 1)
    recipe = Recipe(F16, inputs="f16", splits=7, size=40)
    assert recipe in whose_bits(a, b, multiply(recipe, a, b)).recipes


@pytest.mark.slow
def test_elements_that_no_recipe_gives_are_looked_at_first(monkeypatch):
    """Sums of small integers are exact, so every recipe gives all elements but the few that nobody computed."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(tcemu.formats.lookup("e4m3").dtype) for shape in ((32, 320), (320, 32)))
    d = (a.astype(np.float32) @ b.astype(np.float32)) + (rng.random((32, 32)) < 0.05).astype(np.float32)
    at_many, tried = [], Elements.tried

    def counted(self, recipes, reductions=False):
        found = tried(self, recipes, reductions)
        at_many.append(len(recipes) * (len(found[0].same) > 64) if found else 0)
        return found

    monkeypatch.setattr(Elements, "tried", counted)
    assert not whose_bits(a, b, d).exact
    tables = trials("e4m3", "e4m3", "f32", 320, CONVERSIONS)
    assert sum(at_many) < 68 * sum(bool(trial.recipes) for trial in tables)


def test_c_and_alpha_are_part_of_the_search():
    a, b, c = drawn("f32", (8, 64)), drawn("f32", (64, 8), 1), drawn("f32", (8, 8), 2)
    recipe = Recipe("fma.rn.f32", splits=4, fused="sum")
    d = multiply(recipe, a, b, c, alpha=0.7, beta=1.3)
    found = whose_bits(a, b, d, c, alpha=0.7, beta=1.3)
    assert {each.fused for each in found.recipes} == {"sum"}


@pytest.mark.parametrize(
    ("a", "b", "d", "error", "says"),
    [
        ((4, 8), (9, 4), (4, 4), OperandError, "A must be"),
        ((4, 8), (8, 4), (4, 5), OperandError, "A must be"),
        ((4, 8), (8, 5), (5, 4), OperandError, r"got shapes \(4, 8\), \(8, 5\) and \(5, 4\)\. Pass D\.T\."),
        ((4,), (8, 4), (4, 4), OperandError, "A is a matrix with two axes"),
    ],
)
def test_operands_that_do_not_fit_are_refused(a, b, d, error, says):
    with pytest.raises(error, match=says):
        whose_bits(*(np.ones(shape, np.float16) for shape in (a, b, d)))


def test_lists_have_no_type():
    with pytest.raises(OperandError, match=r"D is a list, whose numbers have no type.*np\.array\(D, np\.float16\)"):
        whose_bits(drawn("f16", (4, 16)), drawn("f16", (16, 4)), [[0.0] * 4] * 4)


@pytest.mark.parametrize("output", ["f32", "f16", "e4m3"])
@pytest.mark.slow
def test_a_product_that_is_stored_by_columns_is_recognised(output):
    a, b = drawn("f16", (16, 32)), drawn("f16", (32, 16), 1)
    d = multiply(Recipe(F16, output=output if output != "f32" else ""), a, b)
    assert "Pass D.T." in str(whose_bits(a, b, np.ascontiguousarray(d.T)))
    assert "Pass D.T." not in str(whose_bits(a, b, d))
    assert "Pass D.T." not in str(whose_bits(a, b, np.ascontiguousarray(d[::-1])))


def test_one_element_is_said_to_be_one():
    a, b = drawn("f16", (1, 16)), drawn("f16", (16, 1), 1)
    assert "recipes give the element" in str(whose_bits(a, b, multiply(Recipe(F16), a, b)))


def test_types_that_no_instruction_multiplies_are_refused():
    with pytest.raises(ArithmeticUnknown, match="no known instruction multiplies f16 by f32"):
        whose_bits(np.ones((4, 8), np.float16), np.ones((8, 4), np.float32), np.ones((4, 4), np.float32))


def test_the_code_for_each_library_is_python():
    for library in ("torch", "jax", "cupy", "triton"):
        compile(snippet(library), library, "exec")
    with pytest.raises(OperandError, match="there is code for torch, jax, cupy or triton; got 'tensorflow'"):
        snippet("tensorflow")


def test_every_base_takes_the_types_of_its_row():
    for base in BASES:
        assert (base.a, base.b) in types_of(base.recipe)
        assert replace(base.recipe, splits=2).splits == 2
