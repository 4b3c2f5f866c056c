"""What is not PTX gets an error that says where, what was found and what was expected, and quotes the line."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import HEAD, INLINED, kernel

from tcemu import assembly
from tcemu.errors import PtxError, TcemuError

IN_A_BODY = {
    "add.s32 %r1, %r2 %r3;": "expected ',' or ';' after an operand of add.s32, found '%r3'",
    "add.s32 %r1, %r99, 1;": "no register here is called %r99. Did you mean '%r9'?",
    "add.s32 %r1, , 1;": "expected an operand, found ','",
    "ld.global.u32 %r1, [%rd1;": "expected ']' after an address, found ';'",
    "ld.global.u32 %r1, [{%r1}];": "expected an address: a register, a variable or a number, found '{'",
    "@%r1 ret;": "the guard of an instruction is a .pred register; %r1 is .b32",
    "@%tid.x ret;": "expected the name of a predicate after '@', found '%tid.x'",
    "@%laneid ret;": "the guard of an instruction is a predicate register; %laneid is not",
    "@%p1 .loc 1 2 3": "expected an opcode, found '.loc'",
    "bra NOWHERE;": "no register, variable, function or label here is called NOWHERE.",
    "bra LOOP; LOP: ret;": "no register, variable, function or label here is called LOOP. Did you mean 'LOP'?",
    "A: A: ret;": "the label A stands twice between these braces",
    ".reg .b32 %r<2>;": "%r0 is declared twice between these braces",
    ".reg .b31 %q;": "expected the type of a register, such as .b32, found '.b31'",
    ".reg .b32 %q": "expected ';' after the registers, found '}'",
    ".reg .b32 %q<x>;": "expected a number of registers or variables, found 'x'",
    ".shared .align 3 .b8 s[4];": "an alignment is a power of two; got 3",
    ".shared .b8 s[-4];": "a number of elements must not be negative; got -4",
    ".shared .b8 s<99999>;": "a declaration makes at most 65,536 variables",
    ".shared .b32 s = 5;": "only .global and .const variables have initial values; s is .shared",
    ".reg .b32 a.x;": "expected the name of a register, found 'a.x'",
    "ld.param.u32 %r1, p[%r2];": "tcemu reads p[...] with a constant only: add the index to an address",
    ".maxntid 5;": "expected an instruction, a label, a declaration or '}', found '.maxntid'",
    "mov.u32 %r1, 08;": "expected a constant, found '08'",
    "mov.u32 %r1, 0f3F;": "0f is followed by 8 hexadecimal digits, the bits of the number",
    "mov.u32 %r1, 0x10000000000000000;": "an integer constant has at most 64 bits",
    "mov.u32 %r1, 1/0;": "a constant expression divides by zero",
    "mov.u32 %r1, 1.0<<2;": "'<<' takes integers, and one of these is a floating-point number",
    "mov.u32 %r1, (1+2;": "expected ')' of the constant expression, found ';'",
    "mov.pred %p1, %p2+1;": "nothing can be added to %p2, which is .pred",
    "mov.u32 %r1|5, 1;": "expected a register or _ after '|', found '5'",
    "mov.u32 %r1, §;": "'§' means nothing in PTX",
    "/* mov.u32": "the comment that begins here does not end",
    ".loc 1 2 3, at 4": "expected what .loc says of a call (function_name or inlined_at), found 'at'",
    "t: .calltargets nobody;": "no register, variable, function or label here is called nobody.",
}
IN_A_MODULE = {
    "": "expected '.version' first, which says how to read PTX, as in '.version 8.7', found the end of the text",
    "nonsense": "expected '.version' first, which says how to read PTX, as in '.version 8.7', found 'nonsense'",
    ".version eight": "expected a PTX version such as 8.7, found 'eight'",
    ".version 8.7 .entry": "expected '.target' after the version, as in '.target sm_90a', found '.entry'",
    f"{HEAD}#include": "PTX has no preprocessor: run the text through one first (cpp -P)",
    f'{HEAD}.file 1 "a': "the string that begins here does not end on its line",
    f"{HEAD}ret;": "expected a variable, a function or another directive of a module, found 'ret'",
    f"{HEAD}.entry k(.param .u64 a .param .u64 b) {{}}": "expected ',' between two parameters, found '.param'",
    f"{HEAD}.entry k() {{ ret;": "expected an instruction, a label, a declaration or '}', found the end of the text",
    f"{HEAD}.entry k() {{}} .entry k() {{}}": "k is defined twice",
    f"{HEAD}.global .b32 k; .entry k() {{}}": "k is declared twice",
    f"{HEAD}.global .b32 x = y;": "nothing above is called y",
    f"{HEAD}.global .b32 x; .global .b8 y = 0x0ff0(x);": "the mask of an address selects one byte: 0xff, 0xff00, ...",
    f"{HEAD}.alias a, b;": "no function above is called b",
    f"{HEAD}.section .debug_str {{": "expected '}' after the contents of a section, found the end of the text",
}


@pytest.mark.parametrize(
    ("text", "message"), [*((kernel(body), message) for body, message in IN_A_BODY.items()), *IN_A_MODULE.items()]
)
def test_what_is_wrong(text, message):
    with pytest.raises(PtxError) as caught:
        assembly.parse(text)
    assert str(caught.value).splitlines()[0].partition(": ")[2] == message
    assert isinstance(caught.value, TcemuError)


def test_where_it_is_wrong():
    with pytest.raises(PtxError) as caught:
        assembly.parse(kernel("ret;\n\tadd.s32\t%r1, %r2, %r10; // a comment"), "add.ptx")
    assert str(caught.value) == (
        "add.ptx:12: no register here is called %r10. Did you mean '%r9'?\n"
        "    12 |  add.s32 %r1, %r2, %r10; // a comment\n"
        "       |                    ^"
    )
    assert caught.value.line == 12


def test_of_a_long_line_a_part_is_quoted():
    with pytest.raises(PtxError) as caught:
        assembly.parse(kernel("nop; " * 1000 + "]" + " nop;" * 1000))
    assert max(map(len, str(caught.value).splitlines())) < 140


@pytest.mark.parametrize("text", [7, None, b".version 8.7"])
def test_ptx_is_text(text):
    with pytest.raises(PtxError, match=f"PTX is text; got {text!r}"):
        assembly.parse(text)


@pytest.mark.parametrize(
    "body",
    ["mov.u32 %r1, " + "(" * 9999, "mov.u32 %r1, " + "-" * 9999, "mov.u32 " + "{" * 9999, "ld.u32 " + "[" * 9999,
     "{" * 9999, "mov.u32 %r1, " + "1?" * 9999, "/*" * 9999, ".global .b32 x = " + "{" * 9999,
     "mov.u32 %r1, " + "9" * 9999],
)  # fmt: skip
def test_nothing_is_nested_too_deeply(body):
    with pytest.raises(PtxError):
        assembly.parse(kernel(body))


WORDS = st.sampled_from(
    [*"{}()[]<>,;:@!+-=|*&~/?%_", " ", "\n", "//", "/*", '"', "%r1", "%rd1", "%p1", "%q", "k", "L", "0x1F", "1.5",
     "0f0", ".reg", ".b32", ".pred", ".param", ".shared", ".align", ".loc 1 2 3", ".file", ".section", ".entry",
     ".func", ".branchtargets", ".callprototype", "call", "bra", "mov.u32", "generic", "WARP_SZ", "%tid.x", "é", "\0"]
)  # fmt: skip
SOURCES = [INLINED, kernel("L: add.s32 %r1, %r2, 4*(2+3); { .reg .b32 %r1; mov.u32 %r1, 1; } @%p1 bra L;")]


@given(st.sampled_from(SOURCES), st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 20), WORDS), max_size=6))
def test_any_text_is_a_module_or_an_error(text, changes):
    for place, cut, word in changes:
        at = place % len(text)
        text = text[:at] + word + text[at + cut :]
    with suppress(PtxError):
        assembly.parse(text)


@given(st.text())
def test_any_characters_at_all(text):
    for each in (text, HEAD + text, kernel(text)):
        with suppress(PtxError):
            assembly.parse(each)
