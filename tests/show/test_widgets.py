"""The sliders and the tables: what they say is what the pictures and the package say."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tcemu
from tcemu import show
from tcemu.errors import TcemuError
from tcemu.formats import FORMATS, Container, lookup
from tcemu.show import widgets

MMA = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
A = np.eye(16, dtype=np.float16)
B = (np.arange(128).reshape(16, 8) / 8).astype(np.float16)
C = np.zeros((16, 8), np.float32)
REGISTERS = [MMA.fragments[role].pack(matrix) for role, matrix in (("a", A), ("b", B), ("c", C))]


def test_pictures_need_no_widgets() -> None:
    code = "import sys, tcemu.show.widgets; print({'ipywidgets', 'anywidget', 'IPython'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_slider_moves_the_picture() -> None:
    lanes = widgets.who_holds_what(MMA, lane=13)
    assert repr(lanes) == "<Explorer lane=13>"
    assert lanes.picture == show.mma_map(MMA, lane=13)
    assert lanes.set(lane=5) == lanes.picture == show.mma_map(MMA, lane=5)
    assert lanes.values == {"lane": 5}


def test_what_the_page_asks_for_is_drawn_and_announced() -> None:
    lanes = widgets.who_holds_what(MMA)
    page: Any = lanes
    page.asked = {"values": {"lane": 21}, "count": 7}
    assert page.answered == 7
    assert lanes.picture == show.mma_map(MMA, lane=21)
    assert page.html == lanes.picture.html
    assert page.said.startswith("mma m16n8k16 f16: lane and register of each element. Lane 21 holds a0 = row 5")
    assert page.controls == [
        {"kind": "range", "name": "lane", "label": "lane", "value": 21, "low": 0, "high": 31, "step": 1}
    ]


def test_a_control_is_a_trait_of_a_widget() -> None:
    ipywidgets = pytest.importorskip("ipywidgets")
    lanes: Any = widgets.who_holds_what(MMA, lane=13)
    assert isinstance(lanes, ipywidgets.DOMWidget)
    assert isinstance(lanes, widgets.Explorer)
    assert ipywidgets.HBox([lanes]).children == (lanes,)
    seen: list[Any] = []
    lanes.observe(lambda change: seen.append((change["old"], change["new"])), "lane")
    slider = ipywidgets.IntSlider(max=31)
    ipywidgets.link((lanes, "lane"), (slider, "value"))
    slider.value = 3
    assert (lanes.picture, lanes.html) == (show.mma_map(MMA, lane=3), lanes.picture.html)
    lanes.set(lane=4)
    assert (slider.value, seen) == (4, [(13, 3), (3, 4)])
    assert "lane" in lanes.get_state(), "a page saves it"


def test_jslink_takes_a_control_and_what_the_page_sets_is_drawn() -> None:
    """In the page jslink copies one model's trait to another, which tells Python like any message from the page."""
    ipywidgets = pytest.importorskip("ipywidgets")
    lanes: Any = widgets.who_holds_what(MMA, lane=13)
    slider = ipywidgets.IntSlider(max=31)
    both = ipywidgets.jslink((slider, "value"), (lanes, "lane"))
    assert both.get_state()["target"] == [f"IPY_MODEL_{lanes.model_id}", "lane"]
    lanes.set_state({"lane": 7})
    assert lanes.picture == show.mma_map(MMA, lane=7)
    assert lanes.get_state()["controls"][0]["value"] == 7, "its own slider stands there, too"
    with pytest.raises(TypeError, match="No such trait"):
        ipywidgets.jslink((slider, "value"), (lanes, "line"))


def test_interactive_output_drives_an_explorer() -> None:
    ipywidgets = pytest.importorskip("ipywidgets")
    flip: Any = widgets.flip_one_bit(MMA, *REGISTERS)
    operand, bit = ipywidgets.Dropdown(options=["a", "b", "c"]), ipywidgets.BoundedIntText(max=31)
    ipywidgets.interactive_output(flip.set, {"operand": operand, "bit": bit})
    operand.value, bit.value = "b", 14
    assert (flip.operand, flip.bit) == ("b", 14)
    assert flip.picture == widgets.flip_one_bit(MMA, *REGISTERS).set(operand="b", bit=14)
    flip.set(bit=3)
    assert bit.value == 14, "it only drives; link goes both ways"


def test_a_saved_page_has_the_explorer_where_it_stands() -> None:
    embed = pytest.importorskip("ipywidgets.embed")
    lanes: Any = widgets.who_holds_what(MMA, lane=13)
    lanes.lane = 20
    saved = embed.embed_data([lanes])["manager_state"]["state"][lanes.model_id]["state"]
    assert (saved["lane"], saved["controls"][0]["value"]) == (20, 20)
    assert saved["html"] == show.mma_map(MMA, lane=20).html
    again: Any = widgets.who_holds_what(MMA)
    again.set_state({"lane": saved["lane"]})
    assert again.html == saved["html"], "the state is enough to go on from"


def test_a_trait_follows_the_limits_of_the_others() -> None:
    flip: Any = widgets.flip_one_bit(MMA, *REGISTERS, register=3)
    flip.operand = "b"
    assert (flip.register, flip.values["register"]) == (1, 1)
    with pytest.raises(TcemuError, match="register cannot be 3: it takes whole numbers from 0 to 1"):
        flip.register = 3
    assert flip.register == 1


def test_a_picture_that_cannot_be_drawn_leaves_the_trait_as_it_was() -> None:
    def draw(power: int) -> Any:
        if power == 2:
            raise TcemuError("no picture of 2")
        return show.number_bits("e4m3", power)

    explorer: Any = widgets.Explorer(draw, {"power": widgets.Range("power", 3)})
    with pytest.raises(TcemuError, match="no picture of 2"):
        explorer.power = 2
    assert (explorer.power, explorer.values) == (0, {"power": 0})


def test_a_control_is_not_called_as_a_widget_has_it() -> None:
    with pytest.raises(TcemuError, match="a control cannot be called 'layout'"):
        widgets.Explorer(lambda **_: show.number_bits("e4m3", 1), {"layout": widgets.Range("layout", 3)})


def test_a_fresh_explorer_leaves_the_first_one_alone() -> None:
    lanes = widgets.who_holds_what(MMA, lane=13)
    lanes.set(lane=20)
    fresh = lanes.at(lane=0)
    assert (fresh.values, lanes.values) == ({"lane": 0}, {"lane": 20})
    assert lanes.at().values == {"lane": 13}
    assert str(fresh) == str(show.mma_map(MMA, lane=0))


def test_an_opcode_does_as_well_as_an_instruction() -> None:
    assert widgets.who_holds_what(str(MMA), 3).picture == widgets.who_holds_what(MMA, 3).picture
    with pytest.raises(TcemuError, match="Did you mean"):
        widgets.who_holds_what("mma.sync.aligned.m16n8k17.row.col.f32.f16.f16.f32")


def test_another_format_has_the_same_number() -> None:
    bits = widgets.bits_of_a_number("e4m3", 0x30)
    for form in ("e5m2", "f16", "tf32", "f64", "ue8m0", "bf16"):
        assert bits.set(form=form).title.endswith(" is 0.5")
    for pattern, form, expected in (
        (0xFC, "e2m1", "−6"),  # −384 is too large
        (0x7F, "f32", "NaN"),
        (0xB0, "ue4m3", "0.5"),  # there is no sign
        (0x3C, "s8", "2"),  # 1.5, a tie
    ):
        assert widgets.bits_of_a_number("e4m3", pattern).set(form=form).title.endswith(f" is {expected}")
    assert widgets.bits_of_a_number("f16", 0x7C00).set(form="e5m2").title.endswith(" is +∞")


def test_a_control_without_a_choice_has_one_position() -> None:
    """The page hides it; another format may need it."""
    bits = widgets.bits_of_a_number("e4m3", 0x30)
    bits.set(form="ue8m0")
    places = {each["name"]: (each["low"], each["high"]) for each in bits._standing() if each["kind"] == "range"}
    assert places == {"sign": (0, 0), "exponent": (0, 255), "mantissa": (0, 0)}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: widgets.who_holds_what(MMA, lane=32), "lane cannot be 32: it takes whole numbers from 0"),
        (lambda: widgets.who_holds_what(MMA, lane=-1), "lane cannot be -1"),
        (lambda: widgets.rounding_of_a_number("e4m3", 5), "5: it takes numbers from 0 to 4.0 in steps of 0.001"),
        (lambda: widgets.rounding_of_a_number("e4m3", 1.30001), "number cannot be 1.30001"),
        (lambda: widgets.rounding_of_a_number("s8", 1), "form cannot be 's8'"),
        (lambda: widgets.bits_of_a_number("e4m3", 256), "e4m3 patterns have 8 bits"),
        (lambda: widgets.bits_of_a_number("e4m4"), "e4m4"),
        (lambda: widgets.flip_one_bit(MMA, *REGISTERS, operand="b", register=2), "whole numbers from 0 to 1"),
        (lambda: widgets.flip_one_bit(MMA, *REGISTERS, bit=32), "bit cannot be 32: it takes whole numbers"),
        (lambda: widgets.flip_one_bit(MMA, *REGISTERS, bits=3), "no control is called 'bits'"),
    ],
)
def test_a_start_that_is_not_possible_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(TcemuError, match=words):
        make()


def test_a_refused_value_changes_nothing() -> None:
    flip = widgets.flip_one_bit(MMA, *REGISTERS)
    before = flip.values, flip.picture
    with pytest.raises(TcemuError):
        flip.set(lane=3, bit=99)
    assert (flip.values, flip.picture) == before


def test_a_saved_widget_is_its_picture() -> None:
    lanes = widgets.who_holds_what(MMA, lane=13)
    bundle = lanes._repr_mimebundle_()
    assert lanes.picture.portable_html in bundle["text/html"]
    assert "With a running kernel, there are controls for lane here." in bundle["text/html"]
    assert bundle["text/plain"] == f"<Explorer lane=13>\n{lanes.picture}"
    assert "application/vnd.jupyter.widget-view+json" in bundle


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_its_sliders(name: str) -> None:
    form = FORMATS[name]
    bits = widgets.bits_of_a_number("e4m3", 0x7E)
    bits.set(form=name)
    picture = bits.set(sign=int(form.signed), exponent=2**form.exponent - 1, mantissa=2**form.mantissa - 1)
    pattern = ((1 << form.bits) - 1) << form.padding
    assert picture == show.number_bits(form, pattern)


def test_the_sliders_start_where_they_are_told() -> None:
    assert widgets.bits_of_a_number("e5m2", 0x41).picture == show.number_bits("e5m2", 0x41)
    assert widgets.rounding_of_a_number("e4m3", 1.3).picture == show.rounding("e4m3", 1.3)


def test_every_offered_number_can_be_rounded() -> None:
    explorer = widgets.rounding_of_a_number()
    control, _ = explorer._standing()
    assert set(control["options"]) >= {"f16", "e4m3", "e2m1"}
    for form in control["options"]:
        for number in (0, 0.001, 4):
            assert f"to {form}" in explorer.set(form=form, number=number).title


def test_one_bit_is_flipped_and_no_other() -> None:
    flip = widgets.flip_one_bit(MMA, *REGISTERS, operand="b", lane=4, register=1, bit=31)
    expected = B.copy()
    position = MMA.fragments["b"].position(4, 1, 1)
    expected[position] = -expected[position]
    before, after = (tcemu.matmul(A, right, C, instruction=MMA) for right in (B, expected))
    assert flip.picture == show.changes(before, after, cause="bit 31 of register b1 in lane 4")
    assert "1 of 128 elements of D changed" in flip.picture.title


def test_the_registers_are_not_touched() -> None:
    copies = [registers.copy() for registers in REGISTERS]
    widgets.flip_one_bit(MMA, *REGISTERS, bit=14).set(lane=9, operand="b", bit=0)
    assert all(np.array_equal(one, two) for one, two in zip(copies, REGISTERS, strict=True))


def test_limits_follow_the_operand() -> None:
    flip = widgets.flip_one_bit(MMA, *REGISTERS, register=3)
    assert flip.set(operand="b").title.endswith("register b1 in lane 0")
    with pytest.raises(TcemuError, match="register cannot be 3: it takes whole numbers from 0 to 1"):
        flip.set(register=3)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"lane": 32}, "lane cannot be 32: it takes whole numbers from 0 to 31"),
        ({"lane": "x"}, "lane cannot be 'x': it takes whole numbers from 0 to 31"),
        ({"row": 1}, "no control is called 'row'; there are lane"),
    ],
)
def test_a_control_or_value_that_is_not_there_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(TcemuError, match=words):
        widgets.who_holds_what(MMA).set(**values)


# ---------------------------------------------------------------------------------------------- tables


def test_the_table_of_formats_is_derived_from_the_records() -> None:
    table = show.format_table()
    assert [row[0] for row in table.rows] == list(FORMATS)
    rows = {row[0]: row for row in table.rows}
    assert rows["e4m3"] == ("e4m3", "1 + 4 + 3", "448", "2⁻⁶", "2⁻⁹", "no", "2")
    assert rows["e2m1"] == ("e2m1", "1 + 2 + 1", "6", "1", "0.5", "no", "none")
    for name in ("e5m2", "e4m3", "e3m2", "ue8m0", "ue4m3", "f16", "bf16", "tf32"):
        form = FORMATS[name]
        counted = int(np.isnan(form.decode(form.codes())).sum())
        assert rows[name][-1] == (str(counted) if counted else "none")


def test_a_table_is_marked_up_for_a_screen_reader() -> None:
    bundle = show.format_table(["e4m3"])._repr_mimebundle_()
    assert bundle["text/html"].count('<th scope="col"') == 7
    assert bundle["text/html"].count('<th scope="row"') == 1
    assert "<caption" in bundle["text/html"]
    assert bundle["text/plain"].splitlines()[2].split() == [
        "e4m3",
        "1",
        "+",
        "4",
        "+",
        "3",
        "448",
        "2⁻⁶",
        "2⁻⁹",
        "no",
        "2",
    ]


def test_the_speed_table_has_the_measured_costs() -> None:
    """2048 multiply-adds, 1.53 cycles each when sixteen warps issue them; wgmma m64n256k16 takes 128 cycles."""
    table = show.speed_table()
    said = {row[0].removeprefix("mma.sync.aligned.").split(".f32")[0]: row[1:] for row in table.rows}
    assert said["m16n8k16.row.col"] == ("2048", "6", "1339", "65 %")
    assert said["m16n8k32.row.col"] == ("4096", "35", "697", "17 %")
    assert said["wgmma.mma_async.sync.aligned.m64n256k16"] == ("262144", "128", "2048", "100 %")
    (double,) = show.speed_table(["mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"]).rows
    assert double[-1] == "no wgmma of this type"


@pytest.mark.parametrize(
    ("opcode", "target", "words"),
    [
        ("m16n8k16.row.col.f32.f16.f16.f32", "sm_90a", ("1 fused sum of 16 products, 25 bits kept", "silicon")),
        (
            "m16n8k16.row.col.f32.f16.f16.f32",
            "sm_80",
            ("2 fused sums of 8 products, 24 bits kept", "published silicon"),
        ),
        ("m16n8k16.row.col.f32.f16.f16.f32", "sm_75", ("does not exist there", "")),
        ("m16n8k16.row.col.s32.s8.s8.s32", "sm_90a", ("the exact sum of 16 products", "silicon")),
        ("m8n8k4.row.col.f64.f64.f64.f64", "sm_90a", ("a chain of 4 f64 multiply-adds", "silicon")),
        ("m8n8k4.row.col.f32.f16.f16.f32", "sm_90a", ("1 chain of 4 f32 multiply-adds, and c", "silicon")),
        ("m8n8k128.row.col.s32.b1.b1.s32.xor.popc", "sm_90a", ("the number of ones among 128 bits", "silicon")),
    ],
)
def test_the_arithmetic_table_says_what_and_how_it_is_known(opcode: str, target: str, words: tuple[str, str]) -> None:
    (row,) = show.arithmetic_table(tcemu.parse(f"mma.sync.aligned.{opcode}"), [target]).rows
    assert row[:3] == (target, *words)


# ---------------------------------------------------------------------------------------------- registers


@pytest.mark.parametrize(
    ("name", "width", "shift"),
    [("f16", 16, 0), ("e4m3", 8, 0), ("e2m1", 4, 0), ("e2m1", 8, 2), ("b1", 1, 0), ("f64", 64, 0)],
)
def test_a_register_shows_its_elements(name: str, width: int, shift: int) -> None:
    container = Container(lookup(name), width, shift)
    numbers = np.arange(container.elements) % 2
    register = int(container.pack(container.form.encode(numbers))[0])
    words = show.register_bits(container, register).description
    assert words.startswith("Elements from the lowest bits: " + ", ".join(str(number) for number in numbers))
    high = shift + container.form.bits - 1
    used = f"bits {high} to {shift}" if high > shift else f"bit {shift}"
    assert words.endswith(f"in {used} of its {width}.")


def test_a_register_has_32_bits() -> None:
    with pytest.raises(TcemuError, match="it has 32 bits, 0 to 0xffffffff"):
        show.register_bits(Container(lookup("f16"), 16), 1 << 32)


# ---------------------------------------------------------------------------------------------- one output's sum


@pytest.mark.parametrize("target", ["sm_90a", "sm_120a"])
def test_a_single_sum_is_the_output(target: str) -> None:
    rng = np.random.default_rng(3)
    a, b, c = (rng.normal(size=s).astype(t) for s, t in (((16, 16), "f2"), ((16, 8), "f2"), ((16, 8), "f4")))
    d = tcemu.matmul(a, b, c, instruction=MMA, target=target)
    for row, column in ((0, 0), (15, 7), (3, 5)):
        picture = show.fused_sum_of(MMA, (a, b, c), row, column, target)
        assert f"({d[row, column].view(np.uint32):#010x})." in picture.description


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"row": 16}, "there are rows 0 to 15"),
        ({"column": -1}, "columns 0 to 7"),
        ({"matrices": (A, B, C.T)}, r"c must be a matrix of shape \(16, 8\); got \(8, 16\)"),
        ({"matrices": (A.astype(np.float32), B, C)}, "a: expected an array of dtype float16"),
    ],
)
def test_a_sum_that_is_not_there_is_refused(where: dict[str, Any], words: str) -> None:
    with pytest.raises(TcemuError, match=words):
        show.fused_sum_of(MMA, **{"matrices": (A, B, C), "row": 0, "column": 0} | where)


def test_a_product_that_is_no_fused_sum_is_refused() -> None:
    s8 = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32")
    with pytest.raises(TcemuError, match="as fused sums of A, B and C"):
        show.fused_sum_of(s8, (A, B, C), 0, 0)


# ---------------------------------------------------------------------------------------------- two targets


@pytest.mark.parametrize("targets", [("sm_80", "sm_90a"), ("sm_89", "sm_100a", "sm_120a")])
def test_each_target_ends_with_its_own_output(targets: tuple[str, ...]) -> None:
    rng = np.random.default_rng(4)
    matrices = [rng.normal(size=s).astype(t) for s, t in (((16, 16), "f2"), ((16, 8), "f2"), ((16, 8), "f4"))]
    words = show.fused_sums_of(MMA, matrices, 3, 5, targets).description
    chained = [words.count(f"{target}, sum 2 of 2; c is the result before: ") for target in ("sm_80", "sm_90a")]
    assert chained == [targets[0] == "sm_80", 0]
    for target in targets:
        d = tcemu.matmul(*matrices, instruction=MMA, target=target)
        assert f"({d[3, 5].view(np.uint32):#010x})." in words


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120"])
def test_the_power_at_which_the_one_is_lost_is_what_matmul_says(target: str) -> None:
    a, b, c = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16), np.zeros((16, 8), np.float32)
    for power in range(31):
        high, low = 2.0 ** -(-power // 2), 2.0 ** (power // 2)
        a[0, :3], b[:3, 0] = (high, 1, -high), (low, 1, low)
        d = tcemu.matmul(a, b, c, instruction=MMA, target=target)[0, 0]
        assert show.fused_sums_of(MMA, (a, b, c), targets=[target]).title == f"D[0, 0] is {d:.0f} on {target}"


def test_a_sum_of_a_wgmma_can_be_drawn() -> None:
    wgmma = "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3"
    a, b, c = (tcemu.parse(wgmma).types[role].encode(np.zeros(shape))
               for role, shape in (("a", (64, 32)), ("b", (32, 8)), ("c", (64, 8))))  # fmt: skip
    a[0, 0] = b[0, 0] = tcemu.formats.lookup("e4m3").encode(1.0)
    assert show.fused_sums_of(wgmma, (a, b, c), targets=["sm_90a"]).title == "D[0, 0] is 1 on sm_90a"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: show.fused_sums_of(MMA, (A, B, C), targets="sm_80"), "targets must be a list of names"),
        (lambda: show.fused_sums_of(MMA, (A, B, C), targets=[]), r"such as \['sm_80', 'sm_90a'\]; got \[\]"),
        (lambda: show.fused_sums_of(MMA, (A, B, C), targets=["ampere"]), "no target is called 'ampere'"),
        (lambda: show.fused_sums_of(MMA, (A, B, C), targets=["sm_75"]), "does not exist on sm_75"),
        (
            lambda: show.fused_sums_of("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", (A, B, C)),
            "as fused sums of A, B and C",
        ),
    ],
)
def test_targets_that_cannot_be_compared_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(TcemuError, match=words):
        make()
