"""What stands in the brackets of kernel[grid, block](...), and what a kernel says about the launch."""

from dataclasses import replace

import numpy as np
import pytest

import tcemu
from tcemu import ptx
from tcemu.errors import LaunchError, OperandError

X = np.zeros(1, np.int32)


def params(n, x):
    return tcemu.cuda.struct("Params", x=x, n=np.int32(n))


#: Each thread counts; the block's threads are limited by a directive.
TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry count(.param .u64 x) DIRECTIVE
{
    .reg .b32 %r<2>;  .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [x];
    atom.global.add.u32 %r1, [%rd1], 1;
    ret;
}"""


def kernel(directive=""):
    return ptx.load(TEXT.replace("DIRECTIVE", directive))["count"]


@pytest.mark.parametrize(
    "configuration", [(2, 4), (2, 4, 0), (2, 4, 0, 0), (2, 4, 0, None), (np.array([2, 1]), np.int64(4)), ((2,), [4, 1])]
)
def test_a_grid_and_a_block(configuration):
    x = np.zeros(1, np.uint32)
    kernel()[configuration](x)
    assert x[0] == 8


@pytest.mark.parametrize(
    ("configuration", "told"),
    [
        (2, "count[grid, block](...) or count[grid, block, shared](...), each of grid and block a number or a tuple"),
        ((1, 2, 3, 4), "stream.launch(kernel, grid, block, (argument, ...))"),
        ((8 / 4, 4), "from 1 to (2147483647, 65535, 65535); got 2.0: // divides without a remainder"),
    ],
)
def test_what_is_no_grid_and_block(configuration, told):
    with pytest.raises(LaunchError) as caught:
        kernel()[configuration](np.zeros(1, np.uint32))
    assert told in str(caught.value)


def test_arguments_that_are_taken_for_the_grid_and_the_block():
    text = TEXT.replace("count(.param .u64 x) DIRECTIVE", "f(.param .u64 x, .param .u32 a, .param .u32 b)")
    with pytest.raises(
        OperandError, match=r"takes 3 arguments; got 1 behind the grid, 8, and the block, 2, which come"
    ):
        ptx.load(text)["f"](8, 2, np.zeros(1, np.uint32))


def test_a_kernel_is_no_attribute_of_its_module():
    module = kernel().module
    with pytest.raises(AttributeError, match=r"a module of kernels has no attribute 'count'; it is module\['count'\]"):
        module.count  # noqa: B018
    with pytest.raises(AttributeError, match=r"a module of kernels has no attribute 'parsed'$"):
        object.__new__(type(module)).parsed  # noqa: B018


def test_brackets_alone_launch_nothing():
    shown = repr(kernel()[2, 4])
    assert shown == "<count[2, 4], not launched yet: its arguments launch it, as in count(.param .u64)>"


@pytest.mark.parametrize(
    ("directive", "block", "fits"),
    [
        (".maxntid 64", 64, True),
        (".maxntid 64", (2, 16, 2), True),
        (".maxntid 64, 1, 1", 65, False),
        (".maxntid 8, 8", (8, 9), False),
        (".reqntid 64", 32, False),
        (".reqntid 64", 64, True),
    ],
)
def test_launch_bounds(directive, block, fits):
    """PTX ISA 11.5: "If the number of threads ... exceeds" .maxntid, the kernel is not launched."""
    x = np.zeros(1, np.uint32)
    stream = tcemu.Stream(target="sm_90")
    stream.launch(kernel(directive), 1, block, (x,))
    if fits:
        stream.synchronize()
        assert x[0] == np.prod(block)
        return
    for launch in (stream.synchronize, lambda: kernel(directive)[1, block](x)):
        with pytest.raises(LaunchError, match=r"count is compiled for blocks of .*64 threads \(__launch_bounds__"):
            launch()
    assert not x[0]


#: Row 1 of an array of pointers, at .param rows, gets the number at .param n, which is behind a pointer.
POINTERS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry copy(.param .u64 rows, .param .u64 n)
{
    .reg .b32 %r<2>;  .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [rows];
    ld.param.u64 %rd2, [n];
    ld.global.u64 %rd3, [%rd1+8];
    ld.global.u32 %r1, [%rd2+8];
    st.global.u32 [%rd3], %r1;
    STORE
    ret;
}"""


def pointers(store="", types=("int**", "Params*")):
    made = ptx.load(POINTERS.replace("STORE", store))["copy"]
    rows, n = made.parameters
    made.__dict__["parameters"] = replace(rows, type=types[0], name="rows"), replace(n, type=types[1], name="n")
    return made


def test_what_has_pointers_lies_behind_a_pointer():
    a, b, x = (np.zeros(1, np.int32) for _ in range(3))
    pointers()[1, 1]([a, b], params(7, x))
    assert (a[0], b[0]) == (0, 7)
    pointers()[1, 1]([None, b], [params(8, x), params(9, None)])
    assert b[0] == 8


@pytest.mark.parametrize(
    ("rows", "n", "told"),
    [
        ([X, X[:0]], 0, "argument 0, int** rows, is a pointer to an array with elements; got one of shape (0,)"),
        ([X, X.astype(float)], 0, "points to elements of int, np.int32; got an array of float64"),
        ([X, params(1, X)], 0, "argument 0, int** rows, points to elements of int*; got a list with <struct Params"),
        ([X, X], [X], "argument 1, Params* n, points to elements of Params; got a list with array([0]"),
    ],
)
def test_what_does_not_fit_behind_a_pointer(rows, n, told):
    with pytest.raises(OperandError) as caught:
        pointers()[1, 1](rows, n or params(1, X))
    assert told in str(caught.value)


def test_what_lies_behind_a_pointer_is_read_only():
    a, b, x = (np.zeros(1, np.int32) for _ in range(3))
    with pytest.raises(LaunchError, match="the kernel wrote to what argument n points to, which is read-only"):
        pointers("st.global.u32 [%rd2+12], %r1;")[1, 1]([a, b], params(7, x))
    with pytest.raises(LaunchError, match=r"gets a pointer to a tensor map or a struct.*by itself"):
        tcemu.Stream(target="sm_90").launch(pointers(), 1, 1, ([a, b], params(7, x)))
