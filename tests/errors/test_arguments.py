"""An argument of a public function that does not fit its annotation is named, in words."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

import tcemu
from tcemu import course, formats, gemm, instructions, microscaling, recipes, sanitizer, schedules, show, timing
from tcemu.arguments import explained
from tcemu.errors import LaunchError, OperandError, UnknownKey
from tcemu.layouts import Descriptor, lanes_of_warp
from tcemu.machine.tensor_map import TensorMap

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
TILE = Descriptor.for_tile("f16", 64, 64, swizzle=128)
HALVES = np.ones((64, 64), np.float16)
HALF = formats.lookup("f16")
PAIRS = formats.Container(HALF, 16)
ELECT = "elect.sync"
SPARSE = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
#: 512 TiB, if it were copied: more than an address can name, so also a system that lends memory it has not refuses.
EVERYTHING = np.broadcast_to(np.float16(1), (1 << 24, 1 << 24))
FRAGMENT = tcemu.parse(MMA).fragments["a"]


class BrokenError(Exception):
    """The error that the function below raises."""


@explained
def fails(
    rows: Sequence[Sequence[str]] = (),
    named: Mapping[str, float] = {},
    size: tuple[int, int] | None = None,
    how: Literal["up", "down"] = "up",
    values: npt.ArrayLike = 0,
    bits: npt.NDArray[np.uint32] | None = None,
    call: Callable[[int], int] = abs,
    names: Iterable[str] = (),
    flag: bool = False,
    *more: int,
    **others: str,
) -> Any:
    """Fail."""
    raise BrokenError


def in_a_kernel(does: Callable[[tcemu.machine.Warp], object]) -> None:
    tcemu.launch(lambda warp: does(warp) and None, shared=64)


#: What does not fit, and what the message asks for.
WRONG = [
    ({"rows": [["a"], [1]]}, "rows must be a list of lists of strings; got [['a'], [1]]"),
    ({"rows": np.zeros((2, 2))}, "rows must be a list of lists of strings"),
    ({"rows": "ab"}, "rows must be a list of lists of strings; got 'ab'"),
    ({"named": {"a": "b"}}, "named must be a dict of numbers; got {'a': 'b'}"),
    ({"named": [1]}, "named must be a dict of numbers; got [1]"),
    ({"size": (1, 2, 3)}, "size must be a tuple of a whole number and a whole number or None; got (1, 2, 3)"),
    ({"how": "left"}, "how must be 'up' or 'down'; got 'left'"),
    ({"how": []}, "how must be 'up' or 'down'; got []"),
    ({"values": [[1, 2], [3]]}, "values must be an array of numbers; got [[1, 2], [3]]"),
    ({"values": "x"}, "values must be an array of numbers; got 'x'"),
    ({"bits": [1]}, "bits must be a numpy array or None; got [1]"),
    ({"call": 3}, "call must be a function; got 3"),
    ({"names": 3}, "names must be a list of strings; got 3"),
    ({"flag": "yes"}, "flag must be True or False; got 'yes'"),
    ({"other": 1}, "others must be a dict of strings; got {'other': 1}"),
]


@pytest.mark.parametrize(("given", "words"), WRONG, ids=[str(given) for given, _ in WRONG])
def test_the_message_names_the_argument_and_what_it_must_be(given, words):
    with pytest.raises(OperandError) as told:
        fails(**given)
    assert f"fails: {words}" in str(told.value)


def test_where_everything_fits_the_error_stays_what_it_was():
    fit = {"rows": [["a"]], "named": {"a": np.float32(1)}, "size": (1, np.int64(2)), "values": [1.5], "flag": True}
    for given in ({}, fit, {"names": iter("ab")}, {"bits": np.zeros(3, np.uint32)}, {"other": "x"}):
        with pytest.raises(BrokenError):
            fails(**given)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        show.popcount(1, 2, nothing=3)


#: Calls of the public face, and a part of the answer.
CALLS = [
    (lambda: show.banks(None), "banks: wavefronts must be a Wavefronts object; got None"),
    (lambda: show.fragment_map(FRAGMENT, 1, 1, "x"), "fragment_map: batch must be a whole number or None; got 'x'"),
    (lambda: show.probe(MMA, lane=1.5), "probe: lane must be a whole number; got 1.5"),
    (lambda: show.histograms([1.0], 0, 1), "histograms: rows must be a dict of arrays of numbers; got [1.0]"),
    (lambda: show.marked(None, []), "marked: labels must be a list of lists of strings; got None"),
    (lambda: show.running_error(3, {"a": [1.0]}), "running_error: ks must be a list of whole numbers; got 3"),
    (lambda: show.shared_tile(TILE, "f16", 10**30, 64), "shared_tile: mn is too large; got 1000000000"),
    (lambda: show.timeline("x"), "timeline: run must be a Timeline object; got 'x'"),
    (lambda: timing.trace([]), "trace: timeline must be a Timeline object; got []"),
    (lambda: lanes_of_warp("x"), "a whole number"),
    (lambda: formats.unpack("e4m3", 3), "unpack: form must be a Format object; got 'e4m3'"),
    (lambda: recipes.probe("f16", "4", 4, 4), "probe: rows must be a whole number; got '4'"),
    (lambda: recipes.probe("f16", 4, 4, 4, seed=-1), "a seed that is not negative"),
    (lambda: recipes.multiply(MMA, HALVES, HALVES), "multiply: recipe must be a Recipe object; got 'mma.sync"),
    (lambda: recipes.Recipe(MMA, order=3), "a recipe's order must be a string; got 3"),
    (lambda: gemm.wgmma_tma.multiply(HALVES, HALVES, "big"), "multiply: plan must be a Plan object or None; got 'big'"),
    (lambda: show.one_output(MMA, [], targets=[]), "targets must be a list of names"),
    (lambda: show.tile_read(TILE, TILE, "f16", 64, 1 << 40), "at most 262,144 of them"),
    (lambda: show.predict("Which?", 3, bits=-1), "bits must be a format, its name, or a number of bits up to 64; got"),
    (lambda: show.running_error([0, 0], {"a": [1.0, 2.0]}), "the last k must be positive"),
    (lambda: show.hazards([], [None]), "reports must be those of the launch's result, result.reports; got [None]"),
    (lambda: show.before_and_after([1j], [1j], 1), "draws real numbers; `before` has dtype complex128"),
    (lambda: show.popcount(1, 2).save(None), "Picture.save: path must be a string or a path; got None"),
    (lambda: tcemu.parse(MMA).arithmetic("ampere"), "no target is called 'ampere'"),
    (lambda: tcemu.parse(MMA).arithmetic(90), "arithmetic: target must be a Target object or a string; got"),
    (lambda: FRAGMENT.read(np.zeros((1, 128))), "registers must be unsigned integers (warps, 128); got float64"),
    (lambda: FRAGMENT.read(None), "a of f16: registers must be unsigned integers (warps, 128); got None"),
    (lambda: FRAGMENT.write(np.zeros((2, 255), np.uint16)), "patterns must be unsigned integers (warps, 256)"),
    (lambda: FRAGMENT.unpack_patterns([1]), "operand a (f16) must be uint32 registers of shape (..., 32, 4)"),
    (lambda: formats.Container("f16", 16), "must have a format, tcemu.formats.lookup(...); got 'f16'"),
    (lambda: formats.Container(HALF, 0), "a width of 1 to 64 bits and a shift of at least 0; got 0"),
    (lambda: PAIRS.pack([1.0, 2.0]), "must be an array (..., n) of unsigned integers; got [1.0, 2.0]"),
    (lambda: PAIRS.pack(np.ones(2)), "an array (..., n) of unsigned integers; got dtype float64"),
    (lambda: PAIRS.pack(np.ones(3, np.uint16)), "3 patterns of f16 do not fill registers of 2"),
    (lambda: PAIRS.unpack(np.ones(2, np.uint16)), "must be an array (..., n) of uint32; got dtype uint16"),
    (lambda: HALF.matrix(np.array([1.5])), "f16: patterns must be whole numbers from 0 to 0xffff; got array([1.5])"),
    (lambda: HALF.matrix([1 << 16]), "f16: patterns must be whole numbers from 0 to 0xffff; got [65536]"),
    (lambda: tcemu.layouts.diagnose(TILE, "f16", 64, 64, start="x"), "diagnose: start must be a whole number or None"),
    (lambda: tcemu.layouts.read_tile(np.zeros(64, np.uint8), TILE, (0, 8), "f16"), "at least one row and one column"),
    (lambda: tcemu.layouts.copy_tile(HALVES, np.zeros(8192, np.uint8), TILE, element=3), "element must be a"),
    (lambda: tcemu.sparse.prune(EVERYTHING, SPARSE), "prune: there is not enough memory for arguments of this size"),
    (lambda: TensorMap(0, "f32", np.array(4), (), (4,), fill=np.zeros(2)), "fill must be zeros or nan"),
    (lambda: TensorMap(0, [], (4,), (), (4,)), "a tensor map must have elements of"),
    (lambda: TensorMap.of(None, (4,)), "pass the pointer that the kernel gets; got None"),
    (lambda: course.manifest("nowhere"), "there is no course.toml in nowhere or in its folder notebooks"),
    (lambda: course.manifest(3), "manifest: folder must be a string, a path or None; got 3"),
    (lambda: course.overview(np.zeros(3)), "overview: folder must be a string, a path or None; got array([0., 0."),
    (lambda: course.hint("where_of_a", "x"), "hint: number must be a whole number or None; got 'x'"),
    (lambda: gemm.explorers.online_softmax("x"), "online_softmax: scores must be an array of numbers; got 'x'"),
    (lambda: in_a_kernel(lambda warp: warp.elect_sync(both="x")), "both must be True or False; got 'x'"),
    (lambda: in_a_kernel(lambda warp: warp.run(ELECT, both=[])), "both must be True or False; got []"),
    (lambda: in_a_kernel(lambda warp: warp.cp_async_bulk_wait_group(0, read=HALVES)), "read must be True or False"),
    (lambda: in_a_kernel(lambda warp: warp.cp_async_mbarrier_arrive(0, noinc=2)), "noinc must be True or False; got 2"),
    (lambda: in_a_kernel(lambda warp: warp.registers(2, fill=0).view("x")), "cannot be viewed as 'x': data type 'x'"),
    (lambda: in_a_kernel(lambda warp: warp.registers(2, fill=0)[HALVES > 2]), " has no [array([[False, False"),
]


def test_the_public_face_answers_with_tcemus_errors(row):
    for number, (call, words) in enumerate(CALLS):
        with row(f"{number}: {words}"):
            with pytest.raises(tcemu.TcemuError) as told:
                call()
            assert words in str(told.value)


def test_a_text_names_a_target():
    mma = tcemu.parse(MMA)
    assert mma.arithmetic("sm_90a") == mma.arithmetic(instructions.target_named("sm_90a"))
    assert mma.operation("sm_90a") == mma.operation(instructions.target_named("sm_90a"))


def test_flags_of_numpy_are_flags():
    found = []
    in_a_kernel(lambda warp: found.append(warp.elect_sync(both=np.True_)))
    assert len(found[0]) == 2


def test_every_public_picture_and_recipe_is_explained():
    for room in (show, recipes):
        for name in room.__all__:
            if inspect.isfunction(function := getattr(room, name)):
                assert hasattr(function, "__wrapped__"), name


def test_running_errors_take_arrays():
    line = np.array([0.0, 0.5])
    assert "0.5" in show.running_error(np.array([32, 64]), {"one": line}).description


def test_seeds_and_delays_without_end():
    out = np.zeros(1, np.uint32)
    with pytest.raises(LaunchError, match="at most 1,000,000 seeds"):
        tcemu.launch(lambda warp, given: None, args=(out,), seeds=10**30)
    found = schedules.search_schedules(lambda warp, given: None, args=(out,), delays=10**30, work=100)
    assert not found.failures


#: Tables of names, and what they say about one that they do not have.
TABLES = [
    (tcemu.parse(MMA).fragments, "x", f"no fragment of {MMA} is called 'x'. There are d, a, b and c."),
    (tcemu.parse(MMA).types, "A", f"no typed operand of {MMA} is called 'A'. There are d, a, b and c."),
    (tcemu.parse("bar.sync").fragments, "a", "no fragment of bar.sync is called 'a'. There is nothing."),
    (sanitizer.RULES, "lane-races", "no rule is called 'lane-races'. Did you mean 'lane-race'? There are "),
    (formats.FORMATS, "f12", "no number format is called 'f12'. Did you mean 'f16'? There are f64, "),
    (instructions.TARGETS, "sm_91", "no target is called 'sm_91'. Did you mean 'sm_90'? There are sm_70, "),
    (microscaling.KINDS, 4, "no microscaling format is called 4. There are mxfp8_e4m3, "),
]


@pytest.mark.parametrize(("table", "name", "words"), TABLES, ids=[words[:24] for *_, words in TABLES])
def test_a_table_says_which_names_it_has(table, name, words):
    with pytest.raises(UnknownKey) as told:
        table[name]
    assert str(told.value).startswith(words)
    assert isinstance(told.value, KeyError)
    assert table.get(name) is None
    assert name not in table


def test_instructions_survive_pickling():
    again = pickle.loads(pickle.dumps(tcemu.parse(MMA)))  # noqa: S301 - its own
    assert again.fragments["a"].shape == (16, 16)
    with pytest.raises(UnknownKey, match="no fragment of mma"):
        again.fragments["x"]
