"""Wrong calls of a warp's methods: the error names the argument that was meant, and the kernel's line."""

import inspect
import re
import traceback

import pytest

import tcemu

#: What others call an argument, in a call of a method, and the argument.
KEYWORDS = {
    "multicast": (lambda w: w.cp_async_bulk_tensor_shared_global(0, None, (0, 0), 0, multicast=3), "cta_mask"),
    "multicast_mask": (lambda w: w.cp_async_bulk_shared_global(0, 0, 16, 0, multicast_mask=3), "cta_mask"),
    "phase": (lambda w: w.mbarrier_wait(0, phase=1), "parity"),
    "bytes": (lambda w: w.mbarrier_arrive_expect_tx(0, bytes=16), None),
    "mbar": (lambda w: w.cp_async_bulk_shared_global(0, 0, 16, mbar=0), "mbarrier"),
    "addr": (lambda w: w.ld_shared(addr=0), "addresses"),
    "scop": (lambda w: w.fence("sc", scop="cta"), "scope"),
    "memory_order": (lambda w: w.ld_global(0, memory_order="acquire"), "order"),
}


@pytest.mark.parametrize("word", KEYWORDS)
def test_a_keyword_that_others_use_leads_to_the_argument(word):
    call, meant = KEYWORDS[word]
    with pytest.raises(tcemu.OperandError, match=rf"warp\.\w+ has no argument {word}=.* Its arguments are \(") as error:
        tcemu.launch(call, shared=64)
    assert f"did you mean {meant}=?" in str(error.value) or meant is None
    assert traceback.extract_tb(error.value.__traceback__)[-1].filename == __file__


def test_every_method_explains_a_word_that_it_does_not_have(row):
    for name, method in vars(tcemu.Warp).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            with row(name), pytest.raises(tcemu.OperandError, match=rf"warp\.{name} has no argument xyzzy=\."):
                tcemu.launch(lambda w, name=name: getattr(w, name)(xyzzy=1))


def test_too_few_and_too_many_arguments():
    for call, told in (
        (lambda w: w.mbarrier_init(0), "warp.mbarrier_init missing 1 required positional argument: 'count'. Its"),
        (lambda w: w.cp_async_wait_all(0), "warp.cp_async_wait_all takes 0 positional arguments but 1 was given. Its"),
    ):
        with pytest.raises(tcemu.OperandError, match=re.escape(told)):
            tcemu.launch(call, shared=64)


def test_a_type_error_of_the_kernel_itself_stays():
    def mine(warp):
        def helper(a):
            return a

        helper(b=1)

    with pytest.raises(TypeError, match="helper") as error:
        tcemu.launch(mine)
    assert not isinstance(error.value, tcemu.TcemuError)
