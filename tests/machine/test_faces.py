"""The face that a kernel sees: names, docstrings, reprs; junk in every operand, which brings an error that teaches."""

import importlib
import inspect
import pickle
import re
import typing

import numpy as np
import pytest
from forms import ends
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from quick import examples

import tcemu
from tcemu.errors import TcemuError
from tcemu.machine import events
from tcemu.machine.dispatch import bind
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import launch
from tcemu.machine.registers import Registers
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.warp import Warp

#: What a kernel finds behind `warp.`: PTX's opcodes with underscores, and where it is. A new method is added here, and
#: a new special register to REGISTERS: the names are a promise to kernels, so no test reads them off the class.
METHODS = {
    "tcgen05_alloc",
    "tcgen05_dealloc",
    "tcgen05_relinquish_alloc_permit",
    "tcgen05_ld",
    "tcgen05_st",
    "tcgen05_wait_ld",
    "tcgen05_wait_st",
    "tcgen05_cp",
    "tcgen05_mma",
    "tcgen05_commit",
    "tcgen05_fence_before_thread_sync",
    "tcgen05_fence_after_thread_sync",
    "ld_shared",
    "st_shared",
    "ld_global",
    "st_global",
    "atom_shared",
    "atom_global",
    "red_shared",
    "red_global",
    "shfl_sync",
    "vote_sync",
    "match_sync",
    "redux_sync",
    "activemask",
    "elect_sync",
    "bar_sync",
    "bar_arrive",
    "bar_red",
    "bar_warp_sync",
    "mbarrier_init",
    "mbarrier_inval",
    "mbarrier_arrive",
    "mbarrier_arrive_drop",
    "mbarrier_expect_tx",
    "mbarrier_arrive_expect_tx",
    "mbarrier_test_wait",
    "mbarrier_try_wait",
    "mbarrier_wait",
    "cp_async",
    "cp_async_commit_group",
    "cp_async_wait_group",
    "cp_async_wait_all",
    "cp_async_mbarrier_arrive",
    "cp_async_bulk_shared_global",
    "cp_async_bulk_global_shared",
    "cp_async_bulk_tensor_shared_global",
    "cp_async_bulk_tensor_global_shared",
    "cp_async_bulk_commit_group",
    "cp_async_bulk_wait_group",
    "fence",
    "membar",
    "fence_proxy_async",
    "fence_mbarrier_init",
    "wgmma_fence",
    "wgmma_commit_group",
    "wgmma_wait_group",
    "setmaxnreg",
    "nanosleep",
    "prefetch_global",
    "prefetch_tensormap",
    "griddepcontrol",
    "mapa",
    "getctarank",
    "ld_shared_cluster",
    "st_shared_cluster",
    "atom_shared_cluster",
    "red_shared_cluster",
    "st_async",
    "red_async",
    "barrier_cluster_arrive",
    "barrier_cluster_wait",
    "mbarrier_arrive_shared_cluster",
    "mbarrier_arrive_expect_tx_shared_cluster",
    "cp_async_bulk_shared_cluster",
}
#: Special registers, and what has no opcode of its own.
REGISTERS = (
    "ctaid nctaid ntid tid laneid warpid nwarpid cluster_ctaid cluster_nctaid cluster_ctarank cluster_nctarank "
    "clusterid nclusterid is_explicit_cluster gridid current_graph_exec "
    "lanemask_eq lanemask_lt lanemask_le lanemask_gt lanemask_ge smid nsmid "
    "dynamic_smem_size total_smem_size aggr_smem_size clock clock64 clock_hi globaltimer globaltimer_lo globaltimer_hi"
)
OTHERS = f"{REGISTERS} run registers generic only exit active core target threads warpgroup"


def with_warp(body, *args, **options):
    """What `body` answers in a warp."""
    answers = []
    launch(lambda warp, *given: answers.append(body(warp, *given)), 1, 32, args, shared=4096, **options)
    return answers[0]


def test_what_completion_offers():
    names = with_warp(lambda warp: [name for name in dir(warp) if not name.startswith("_")])
    told = METHODS | set(OTHERS.split())
    assert set(names) == told, f"add to METHODS or REGISTERS, or take out: {sorted(told ^ set(names))}"


def test_every_method_is_one_of_the_class(row):
    """The methods are functions of several modules; errors, help and pickles treat them as methods of the class."""
    for name in sorted(METHODS | {"only", "exit", "registers", "generic", "run"}):
        method = getattr(Warp, name)
        with row(name):
            assert (method.__module__, method.__qualname__) == (Warp.__module__, f"Warp.{name}")
            assert pickle.loads(pickle.dumps(method)) is method  # noqa: S301
            assert next(iter(inspect.signature(method).parameters.values())).annotation is inspect.Parameter.empty
            assert "return" in typing.get_type_hints(method)
    with pytest.raises(TypeError, match=r"Warp\.setmaxnreg\(\) missing 1 required positional argument: 'count'"):
        Warp(Listener()).setmaxnreg("inc")


def test_everything_has_a_docstring_that_names_the_opcode(row):
    for name in sorted(METHODS):
        with row(name):
            told = inspect.getdoc(getattr(Warp, name))
            first = name.replace("mbarrier_wait", "mbarrier_try_wait").split("_")[0]
            assert told.startswith(first)
            assert told.split(":")[0].endswith(tuple("abcdefghijklmnopqrstuvwxyz0123456789.)N}"))
    for name in set(OTHERS.split()) - {"core"}:
        with row(name):
            told = inspect.getdoc(getattr(Warp, name))
            assert told
            assert name not in set(REGISTERS.split()) - {"nwarpid"} or told.startswith(f"%{name}: ")


#: Operands of the methods that begin with a word of the opcode; the others take numbers.
WORDS = {
    "atom_shared": "add.u32", "atom_global": "add.u32", "red_shared": "add.u32", "red_global": "add.u32",
    "shfl_sync": "up", "vote_sync": "all", "match_sync": "any", "redux_sync": "add.u32", "bar_red": "or",
    "atom_shared_cluster": "add.u32", "red_shared_cluster": "add.u32", "red_async": "add.u32",
    "tcgen05_mma": "f16",
    "griddepcontrol": "wait", "setmaxnreg": "inc", "prefetch_global": "L1", "fence": "sc", "membar": "gl",
}  # fmt: skip
#: What the methods of tcgen05 move.
TENSOR = {"tcgen05_ld": "32x32b.x1", "tcgen05_st": "32x32b.x1", "tcgen05_cp": "128x256b"}


class Listener:
    """In the place of a warp's core: what a method executes."""

    bits = 0

    def __init__(self):
        self.heard = []

    def execute(self, instruction, *_, both=False):
        self.heard.append(tcemu.parse(instruction))


def test_every_method_executes_the_opcode_that_it_is_called_after(row):
    """Its words are the opcode's, and the machine executes it."""
    made = TensorMap(256, "f16", (64, 64), (128,), (64, 8))
    for name in sorted(METHODS):
        core = Listener()
        least, _ = arity(name)
        operands = [WORDS[name]] if name in WORDS else []
        operands += [0] * (least - len(operands))
        if "bulk_tensor" in name or "tensormap" in name:
            given = list(inspect.signature(getattr(Warp, name)).parameters.values())[1:]
            operands = [made if each.name == "tensor_map" else 0 for each in given if each.kind != each.KEYWORD_ONLY]
        if name in ("mbarrier_test_wait", "mbarrier_try_wait", "mbarrier_wait"):
            operands = [0, 0]
        if name in TENSOR:
            names = [each.name for each in inspect.signature(getattr(Warp, name)).parameters.values()][1:]
            operands[names.index("what")] = TENSOR[name]
        with row(name):
            getattr(Warp(core), name)(*operands)
            (instruction,) = core.heard
            assert set(name.split("_")) <= set(re.split(r"[._:]+", instruction.opcode))
            target = "sm_100a" if name.startswith("tcgen05") else "sm_90a"
            assert bind(instruction, target).instruction == instruction


def test_reprs():
    def body(warp, p):
        assert repr(p) == "<pointer 256 to float32 (3, 4)>"
        assert repr(warp) == "<warp 0 of block (0, 0, 0): 32 active lanes>"
        with warp.only(warp.laneid < 5):
            assert repr(warp) == "<warp 0 of block (0, 0, 0): 5 active lanes>"
        assert repr(warp.registers(3)) == "<registers (32, 3) uint32>"
        loaded = warp.run("ldmatrix.sync.aligned.m8n8.x2.shared.b16", 16 * warp.laneid)
        assert repr(loaded) == "<registers of ldmatrix.sync.aligned.m8n8.x2.shared.b16 (32, 2) uint32>"

    with_warp(body, np.zeros((3, 4), np.float32))


def test_a_pointer_is_an_integer():
    p = Pointer(256, np.dtype(np.int8), (4,))
    assert p == 256
    assert hash(p) == hash(256)
    assert {256: "x"}[p] == "x"
    assert np.asarray(p + np.arange(2)).tolist() == [256, 257]
    assert f"{p:d} {p:#x}" == "256 0x100"
    assert p // 2 == 128


# ------------------------------------------------------------------------------------------------ registers


def test_registers_are_an_array_that_is_copied_when_read():
    def body(warp):
        r = warp.registers(3, fill=7)
        part, whole, one = r[:, 1:], r[...], r[5, 2]
        r[:, 1] = 9
        r[warp.laneid > 29] = 0
        r[0, 0] = np.uint32(1)
        assert (part == 7).all()
        assert (whole == 7).all()
        assert one == 7
        assert r[:, 1].tolist() == [9] * 30 + [0, 0]
        assert r[0, 0] == 1
        assert (len(r), r.shape, r.ndim, r.dtype) == (32, (32, 3), 2, np.uint32)
        assert ((r + 1)[1] == [8, 10, 8]).all()
        r += 1
        assert isinstance(r, Registers)
        assert r[1].tolist() == [8, 10, 8]
        assert r.view(np.float32).dtype == np.float32
        assert np.array_equal(np.sum(r, axis=1)[1:30], [26] * 29)
        r[...] = -1
        assert (r.bits == 0xFFFFFFFF).all()
        assert warp.registers(1, fill=-1).bits[0, 0] == 0xFFFFFFFF
        assert warp.registers(np.int8(1), fill=(1 << 64) - 1, dtype="uint64").bits[0, 0] == (1 << 64) - 1

    with_warp(body)


def test_registers_and_junk(row):
    def body(warp):
        r = warp.registers(3, fill=7)
        empty = warp.registers(3)
        f32 = np.zeros((32, 3), np.float32)
        cases = [
            ("rows", lambda: r[32]), ("columns", lambda: r[:, 3]), ("text", lambda: r["x"]), ("half", lambda: r[0.5]),
            ("mask", lambda: r[np.ones(5, bool)]), ("three", lambda: r[0, 0, 0]), ("none", lambda: r[{}]),
            ("unwritten", lambda: empty[:, 3]), ("write rows", lambda: r.__setitem__(32, 0)),
            ("write text", lambda: r.__setitem__("x", 0)), ("a float value", lambda: r.__setitem__(0, 1.5)),
            ("f32 values", lambda: r.__setitem__(..., f32)), ("None", lambda: r.__setitem__(0, None)),
            ("shape", lambda: r.__setitem__(..., np.zeros((32, 2), int))),
            ("ragged", lambda: r.__setitem__(0, [[1], [1, 2]])), ("too large", lambda: r.__setitem__(0, 1 << 80)),
            ("count 0", lambda: warp.registers(0)), ("count", lambda: warp.registers(10**9)),
            ("bool", lambda: warp.registers(True)), ("0.5", lambda: warp.registers(0.5)),
            ("fill", lambda: warp.registers(1, fill=1.5)), ("fill text", lambda: warp.registers(1, "x")),
            ("fill large", lambda: warp.registers(1, fill=1 << 32)), ("array", lambda: warp.registers(1, fill=f32)),
            ("small", lambda: warp.registers(1, fill=-(1 << 31) - 1)), ("none at all", lambda: warp.registers(None)),
            ("dtype", lambda: warp.registers(1, dtype=np.float32)), ("junk", lambda: warp.registers(1, dtype=",")),
            ("an object", lambda: warp.registers(1, dtype=Raises())),
        ]  # fmt: skip
        for name, deed in cases:
            with row(name), pytest.raises(TcemuError):
                deed()
        assert (r.bits == 7).all()

    with_warp(body)


# ------------------------------------------------------------------------------------------------ junk


class Raises:
    """An object whose conversions all fail."""

    def __array__(self, *_, **__):
        raise RuntimeError("no array")

    def __repr__(self):
        raise RuntimeError("no repr")


OBJECTS = [
    Raises(), object(), [], {}, (), [[1], [2, 3]], int, slice(3), np.float32(1), np.uint64(1 << 63), "b32", "v4.b32",
    "any", "up", "inc", np.zeros(0), np.zeros(32), np.arange(32), np.arange(32) * 16, np.arange(64).reshape(32, 2),
    1 << 70,
    np.zeros((32, 4), np.uint32), np.zeros((2, 32, 4), np.uint32), np.zeros((128, 4), np.uint32), np.zeros(32, bool),
    np.ones(32, bool), np.zeros((32, 1), object), np.array("x"), np.array(None), np.full(32, -1), np.zeros((1,) * 40),
    np.zeros(32, [("a", int)]), np.zeros(32, "M8[s]"),
]  # fmt: skip
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-40, 4200), st.floats(), st.text(max_size=5),
    st.binary(max_size=3), st.sampled_from(OBJECTS),
)  # fmt: skip
PLACES = st.sampled_from(["p", "map", "registers"])


def called(warp, pointer, name, operands):
    things = {"p": pointer, "map": TensorMap.of(pointer, (16, 16)), "registers": warp.registers(2, fill=0)}
    return getattr(warp, name)(*[things.get(each, each) if isinstance(each, str) else each for each in operands])


def survives(deed):
    """It succeeds, or raises an error that explains itself."""
    try:
        return deed()
    except TcemuError as error:
        told = str(error)
    assert len(told) > 20
    return None


def survives_as_kernel(kernel):
    survives(lambda: launch(kernel, 1, 64, (np.zeros((64, 64), np.float32),), shared=4096))


def arity(name):
    parameters = [
        each for each in inspect.signature(getattr(Warp, name)).parameters.values() if each.kind != each.KEYWORD_ONLY
    ]
    return sum(each.default is each.empty for each in parameters) - 1, len(parameters) - 1


@pytest.mark.parametrize("name", [*sorted(METHODS), "only", "generic", "registers"])
@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_junk_in_every_operand_brings_an_error_of_this_package(name, data):
    least, most = arity(name)
    operands = data.draw(st.lists(JUNK | PLACES, min_size=least, max_size=most))

    def kernel(warp, p):
        done = called(warp, p, name, operands)
        if name == "only":
            with done:
                warp.vote_sync("all", True)

    survives_as_kernel(kernel)


#: Opcodes beside those of machine.forms.
MORE_OPCODES = [
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ldmatrix.sync.aligned.m8n8.x1.b16",
    "stmatrix.sync.aligned.m8n8.x2.shared.b16", "movmatrix.sync.aligned.m8n8.trans.b16",
    "wmma.load.a.sync.aligned.row.m16n16k16.f16", "wmma.load.a.sync.aligned.row.m16n16k16.global.f16",
    "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32", "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16",
    "wgmma.wait_group.sync.aligned", "fence.proxy.async",
]  # fmt: skip


def opcodes():
    return st.sampled_from([*(instruction.opcode for instruction in ends()), *MORE_OPCODES])


@examples(150)
@given(opcode=st.deferred(opcodes) | st.text(max_size=20), operands=st.lists(JUNK | PLACES, max_size=9))
def test_junk_in_warp_run(opcode, operands):
    def kernel(warp, p):
        called(warp, p, "run", [opcode, *operands])

    survives_as_kernel(kernel)


WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"


@examples(100)
@given(place=st.integers(0, 7), junk=JUNK, who=st.integers(0, 4), policy=st.sampled_from(["late", "early"]))
def test_junk_in_one_operand_of_wgmma(place, junk, who, policy):
    """In one warp of the four, or in all."""

    def kernel(warp):
        operands = [warp.registers(4, fill=0), 0, 0, True, 1, 1, 0, 0]
        if who in (4, warp.warpid):
            operands[place] = junk
        warp.run(WGMMA, *operands)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)

    survives(lambda: launch(kernel, 1, 128, shared=65536, policy=policy))


@examples(100)
@given(
    options=st.dictionaries(
        st.sampled_from(["grid", "block", "args", "shared", "target", "seed", "policy", "observers"]), JUNK
    )
)
def test_junk_in_launch(options):
    if isinstance(options.get("grid"), int) and options["grid"] > 8:
        return  # legal, and long
    survives(lambda: launch(lambda *_: None, **options))


@examples(100)
@given(index=st.lists(JUNK, min_size=2, max_size=2))
def test_junk_in_a_pointer(index):
    found = survives(lambda: Pointer(256, np.dtype(np.float32), (4, 4)).at(*index))
    assert found is None or isinstance(found, int) or found.dtype == np.int64


# ------------------------------------------------------------------------------------------------ events


def test_every_event_is_offered_where_observers_look_for_it(row):
    """The chapters of tcemu.machine.events name what they offer, and the package passes all of it on."""
    for chapter in events.__all__:
        module = importlib.import_module(f"tcemu.machine.events.{chapter}")
        defined = {name for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__}
        with row(chapter):
            assert defined <= set(module.__all__)
            assert all(getattr(events, name) is getattr(module, name) for name in module.__all__)
            assert not any(name in vars(events) for name in ("np", "Any", "dataclass"))
