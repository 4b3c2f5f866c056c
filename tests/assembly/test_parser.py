"""PTX text to modules: every kind of declaration, operand and directive."""

import pytest
from samples import HEAD, INLINED, kernel

from tcemu import assembly
from tcemu.assembly import (
    Arguments,
    Immediate,
    Instruction,
    Label,
    Masked,
    Memory,
    Negated,
    Pair,
    Parts,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)

R = Register


def body_of(text: str, **more: str) -> tuple[Instruction, ...]:
    return assembly.parse(kernel(text, **more)).functions["k"].body


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("add.s32 %r1, %r2, -1;", (R("%r1"), R("%r2"), Immediate(-1))),
        ("add.s32 %r1, %r2, 0x80000000;", (R("%r1"), R("%r2"), Immediate(0x80000000))),
        ("add.f32 %f1, %f2, 0f3F800000;", (R("%f1"), R("%f2"), Immediate(0x3F800000, "f32"))),
        ("add.f32 %f1, %f2, -0f3F800000;", (R("%f1"), R("%f2"), Immediate(0xBF800000, "f32"))),
        ("add.f32 %f1, %f2, 1.5;", (R("%f1"), R("%f2"), Immediate(0x3FF8000000000000, "f64"))),
        ("mov.u32 %r1, %tid.x;", (R("%r1"), Special("tid.x"))),
        ("mov.u64 %rd1, %clock64;", (R("%rd1"), Special("clock64"))),
        ("mov.u32 %r1, WARP_SZ;", (R("%r1"), Immediate(32))),
        ("mov.u64 %rd1, p;", (R("%rd1"), Symbol("p"))),
        ("mov.u64 %rd1, p+16;", (R("%rd1"), Symbol("p", 16))),
        ("ld.param.u64 %rd1, [p];", (R("%rd1"), Memory(Symbol("p")))),
        ("ld.param.u32 %r1, [p+4];", (R("%r1"), Memory(Symbol("p"), 4))),
        ("ld.global.u32 %r1, [%rd1+-8];", (R("%r1"), Memory(R("%rd1"), -8))),
        ("ld.global.u32 %r1, [%rd1-8+4*2];", (R("%r1"), Memory(R("%rd1"), 0))),
        ("ld.shared.u32 %r1, [64];", (R("%r1"), Memory(Immediate(64)))),
        ("setp.lt.s32 %p1|%p2, %r1, %r2;", (Pair(R("%p1"), R("%p2")), R("%r1"), R("%r2"))),
        ("shfl.sync.bfly.b32 %r1|_, %r2, 1, 31, -1;",
         (Pair(R("%r1"), Sink()), R("%r2"), Immediate(1), Immediate(31), Immediate(-1))),
        ("and.pred %p1, %p2, !%p3;", (R("%p1"), R("%p2"), Negated(R("%p3")))),
        ("vadd2.u32.u32.u32 %r1.h1, %r2.h30, %r3, %r4;",
         (Parts(R("%r1"), "h1"), Parts(R("%r2"), "h30"), R("%r3"), R("%r4"))),
        ("mbarrier.arrive.shared.b64 _, [%r1];", (Sink(), Memory(R("%r1")))),
        ("mov.b64 %rd1, {%r1, %r2};", (R("%rd1"), Vector((R("%r1"), R("%r2"))))),
        ("mov.b64 {_, %r2}, %rd1;", (Vector((Sink(), R("%r2"))), R("%rd1"))),
        ("cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];",
         (Memory(R("%r1")), Memory(R("%rd1"), 0, (R("%r2"), R("%r3"))), Memory(R("%r4")))),
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, %rd2, {%f1, %f2}];",
         (Vector((R("%f1"), R("%f2"), R("%f3"), R("%f4"))),
          Memory(R("%rd1"), 0, (R("%rd2"), Vector((R("%f1"), R("%f2"))))))),
        ("ret;", ()),
    ],
)  # fmt: skip
def test_operands(text, operands):
    (instruction,) = body_of(text)
    assert instruction.operands == operands
    assert instruction.opcode == text.split()[0].rstrip(";")


def test_elements_of_arrays():
    """ptxas 13.3 scales the index by the size of the type, whatever the dimensions and vectors."""
    before = ".global .u32 a[8][4];\n.global .v2 .f64 b[8];\n"
    text = "ld.global.u32 %r1, a[3]; st.global.f64 b[1+1], %rd1; mov.u64 %rd1, a[1]; ld.global.u32 %r1, [a];"
    load, store, move, address = body_of(text, before=before)
    assert load.operands[1] == Memory(Symbol("a"), 12)
    assert store.operands[0] == Memory(Symbol("b"), 16)
    assert move.operands[1] == Symbol("a", 4)
    assert address.operands[1] == Memory(Symbol("a"))


def test_a_label_may_begin_with_a_percent_sign():
    assert body_of("%L1: bra %L1;")[0].operands == (Label("%L1"),)


def test_guards():
    plain, guarded, negated = body_of("ret;\n@%p1 exit;\n@!%p2 ret;")
    assert (plain.guard, plain.negated) == (None, False)
    assert (guarded.guard, guarded.negated) == (R("%p1"), False)
    assert (negated.guard, negated.negated) == (R("%p2"), True)
    assert [str(each) for each in (plain, guarded, negated)] == ["ret;", "@%p1 exit;", "@!%p2 ret;"]


def test_text_lines():
    text = kernel("// a comment\nmov.u32 %r1,\n 5; /* two\nlines */ ret;")
    lines = [each.text_line for each in assembly.parse(text).functions["k"].body]
    assert [text.splitlines()[line - 1] for line in lines] == ["mov.u32 %r1,", "lines */ ret;"]


def test_a_register_plus_a_number_is_an_addition_before():
    """ptxas 13.3 accepts it, though the manual does not say so."""
    assert [str(each) for each in body_of("mul.lo.u32 %r1, %r2+3, %r2;")] == [
        "add.s32 %r2#2, %r2, 3;",
        "mul.lo.u32 %r1, %r2#2, %r2;",
    ]


def test_registers_are_those_that_are_used():
    text = kernel("mov.u32 %r9, %x; mov.f32 %f0, 0f00000000; and.pred %p1, %p1, %p1;")
    function = assembly.parse(text).functions["k"]
    assert function.registers == {"%r9": "b32", "%x": "b32", "%f0": "f32", "%p1": "pred"}


def test_a_range_may_end_in_digits():
    text = kernel(".reg .b64 %r1<3>; .reg .b32 a<2>;\nmov.b64 %r12, 0; mov.b32 %r2, a1;")
    assert assembly.parse(text).functions["k"].registers == {"%r12": "b64", "%r2": "b32", "a1": "b32"}


def test_vector_registers_are_their_components():
    load, move, whole = body_of(".reg .v4 .f32 v; ld.v4.f32 v, [%rd1]; mov.f32 %f1, v.w; mov.f32 v.r, v.a;")
    parts = tuple(R(f"v.{axis}") for axis in "xyzw")
    assert load.operands[0] == Vector(parts)
    assert move.operands[1] == R("v.w")
    assert whole.operands == (R("v.x"), R("v.w"))


def test_scopes_rename_what_they_hide():
    function = assembly.parse(
        kernel("""
        mov.u32 %r1, 0;
        { .reg .b32 %r1; .reg .pred p; mov.u32 %r1, 1; setp.eq.u32 p, %r1, %r2;
          { .reg .b64 %r1; mov.u64 %r1, 2; }
          mov.u32 %r1, 3; }
        { .reg .pred p; setp.eq.u32 p, %r1, %r2; }
        """)
    ).functions["k"]
    assert [str(each) for each in function.body] == [
        "mov.u32 %r1, 0;",
        "mov.u32 %r1#2, 1;",
        "setp.eq.u32 p#2, %r1#2, %r2;",  # p is a parameter
        "mov.u64 %r1#3, 2;",
        "mov.u32 %r1#2, 3;",
        "setp.eq.u32 p#3, %r1, %r2;",
    ]
    assert function.registers["%r1#3"] == "b64"


def test_labels_belong_to_their_braces():
    """CUTLASS waits in loops of one name, each in its own braces."""
    wait = "{ LAB: @%p1 bra DONE; bra LAB; DONE: }"
    function = assembly.parse(kernel(f"{wait} {wait} DONE: bra.uni DONE;")).functions["k"]
    assert [each.operands for each in function.body] == [
        (Label("DONE"),), (Label("LAB"),), (Label("DONE#2"),), (Label("LAB#2"),), (Label("DONE#3"),),
    ]  # fmt: skip
    assert function.labels == {"LAB": 0, "DONE": 2, "LAB#2": 2, "DONE#2": 4, "DONE#3": 4}


def test_tables_of_targets():
    function = assembly.parse(
        kernel(
            """
            brx.idx %r1, to;
            A: call (%r2), %rd1, (%r3), shape;
            B: call %rd1, (%r3), these;
            call (%r2), f, (%r3);
            call f2;
            to: .branchtargets A, B;
            these: .calltargets f, f2;
            shape: .callprototype (.param .b32 _) _ (.param .b64 a, .param .align 8 .b8 b[16]) .noreturn;
            """,
            before=".func (.reg .b32 r) f (.reg .b32 a);\n.func f2;\n",
        )
    ).functions["k"]
    assert function.branch_targets == {"to": ("A", "B")}
    assert function.call_targets == {"these": ("f", "f2")}
    shape = function.prototypes["shape"]
    assert [each.size for each in (*shape.returns, *shape.parameters)] == [4, 8, 16]
    assert shape.directives == {"noreturn": ()}
    calls = [each.operands for each in function.body[1:]]
    assert calls == [
        (Arguments((R("%r2"),)), R("%rd1"), Arguments((R("%r3"),)), Label("shape")),
        (R("%rd1"), Arguments((R("%r3"),)), Label("these")),
        (Arguments((R("%r2"),)), Symbol("f"), Arguments((R("%r3"),))),
        (Symbol("f2"),),
    ]


def test_calls_as_compilers_write_them():
    function = assembly.parse(
        kernel(
            """
            { .param .b64 param0; st.param.b64 [param0], %rd1; .param .b32 retval0;
              call.uni (retval0), vprintf, (param0); ld.param.b32 %r1, [retval0]; }
            { .param .b64 param0; st.param.b64 [param0], %rd1; }
            """,
            before=".extern .func (.param .b32 func_retval0) vprintf(.param .b64 vprintf_param_0);\n",
        )
    ).functions["k"]
    assert function.body[1].operands == (
        Arguments((Symbol("retval0"),)), Symbol("vprintf"), Arguments((Symbol("param0"),)),
    )  # fmt: skip
    assert function.body[3].operands[0] == Memory(Symbol("param0#2"))
    assert {name: each.size for name, each in function.variables.items()} == {"param0": 8, "retval0": 4, "param0#2": 8}


def test_parameters():
    text = f"""{HEAD}
    .visible .entry k(.param .u64 .ptr .global .align 16 a, .param .u64 .ptr .align 4 b,
        .param .align 64 .b8 map[128], .param .f16 h, .param .v4 .f32 v) {{ ret; }}"""
    a, b, tensor_map, half, vector = assembly.parse(text).functions["k"].parameters
    assert (a.pointer, a.align, a.size) == ("global", 8, 8)  # 16 is the alignment of what it points to
    assert (b.pointer, b.align) == ("generic", 8)
    assert (tensor_map.align, tensor_map.size, tensor_map.count) == (64, 128, 128)
    assert (half.type, half.size, half.align) == ("f16", 2, 2)
    assert (vector.size, vector.align, vector.count) == (16, 16, 4)


def test_variables():
    text = f"""{HEAD}
    .extern .shared .align 16 .b8 dynamic[];
    .visible .const .align 4 .f32 scale[2] = {{0f3F800000, 0f40000000}};
    .global .b32 grid[2][3] = {{{{1, 2}}, {{3, 4, 5}}}};
    .global .align 8 .u64 pointers[3] = {{generic(grid)+8, grid+4, 0}};
    .global .u8 bytes[] = {{0xff(grid), 0xff00(grid)}};
    .global .v2 .u16 pairs[2] = {{{{1, 2}}, {{3}}}};
    .global .attribute(.managed) .s32 shared_with_host = -5;
    .global .samplerref s = {{ addr_mode_0 = wrap, filter_mode = nearest }};
    .shared .b32 many<2>;
    .const .align 4 .f32 late[] = {{0f00000000, 0f3F800000}};"""
    variables = assembly.parse(text).variables
    dynamic, pairs = variables["dynamic"], variables["pairs"]
    assert (dynamic.size, dynamic.align, dynamic.extern, dynamic.space) == (0, 16, True, "shared")
    assert [*variables["grid"].elements()] == [
        (0, 4, Immediate(1)), (4, 4, Immediate(2)), (12, 4, Immediate(3)), (16, 4, Immediate(4)), (20, 4, Immediate(5)),
    ]  # fmt: skip
    assert [each for _, _, each in variables["pointers"].elements()] == [
        Symbol("grid", 8, generic=True), Symbol("grid", 4), Immediate(0),
    ]  # fmt: skip
    assert variables["bytes"].initial == (Masked(0xFF, Symbol("grid")), Masked(0xFF00, Symbol("grid")))
    assert variables["bytes"].size == 2
    assert (pairs.size, pairs.align, pairs.count) == (8, 4, 4)
    assert [at for at, _, _ in pairs.elements()] == [0, 2, 4]
    assert variables["shared_with_host"].initial == Immediate(-5)
    assert variables["s"].type == "samplerref"
    assert {"many0", "many1"} <= variables.keys()
    assert variables["late"].size == 8


def test_a_local_variable_hides_one_of_the_module():
    function = assembly.parse(
        kernel("mov.u32 %r1, s; { .shared .b32 s; mov.u32 %r1, s; }", before=".shared .b32 s;\n")
    ).functions["k"]
    assert [each.operands[1] for each in function.body] == [Symbol("s"), Symbol("s#2")]
    assert function.variables.keys() == {"s#2"}


def test_directives():
    text = f"""{HEAD}.pragma "a", "b";
    .func .noreturn stop() {{ trap; }}
    .visible .entry .attribute(.unified(1, 2)) k() .maxntid 128, 1, 1 .reqnctapercluster 2 .minnctapersm 1
      .pragma "nounroll"; .from_the_future 5, 6 {{ .pragma "nounroll"; ret; }}"""
    functions = assembly.parse(text).functions
    assert functions["stop"].directives == {"noreturn": ()}
    assert functions["k"].directives == {
        "maxntid": (128, 1, 1), "reqnctapercluster": (2,), "minnctapersm": (1,), "pragma": ("nounroll",),
        "from_the_future": (5, 6),
    }  # fmt: skip


def test_the_module():
    text = HEAD.replace("sm_90a", "sm_90a, debug") + (
        ".weak .func f(.param .b32 _);\n.weak .func f(.param .b32 a) { ret; }\n.alias g, f;\n"
        ".visible .entry k() { call g, (1); }\n.entry only_declared();"
    )
    module = assembly.parse(text + "\0", "a.ptx")
    assert (module.version, module.target, module.options, module.address_size) == ("8.7", "sm_90a", ("debug",), 64)
    assert module.name == "a.ptx"
    assert module.functions["f"].defined
    assert not module.functions["only_declared"].defined
    assert module.aliases == {"g": "f"}
    assert [each.name for each in module.kernels] == ["k"]


def test_declarations_of_the_first_ptx_have_no_semicolon():
    text = ".version 1.4\n.target sm_13\n.visible .func (.param .f32 r) f (.param .f32 a)\n.entry k { exit; }"
    assert [each.defined for each in assembly.parse(text).functions.values()] == [False, True]


def test_names_of_kernels():
    function = assembly.parse(INLINED).functions["_Z4gemmILi64EEvPfi"]
    assert (function.demangled, function.short) == ("gemm<64>(float*, int)", "gemm<64>")
    assert function.parameter_types == ("float*", "int")
    assert assembly.parse(kernel("ret;")).functions["k"].parameter_types is None


def test_lines_and_the_calls_that_were_inlined():
    function = assembly.parse(INLINED).functions["_Z4gemmILi64EEvPfi"]
    first, caller, outer, inner, unknown, last = (each.line for each in function.body)
    assert (str(first), first.column, first.function, first.inlined) == ("/home/me/kernel.cu:20", 0, "gemm<64>", None)
    assert (outer.line, outer.function, outer.inlined) == (30, "outer", caller)
    assert (inner.file, inner.line, inner.column) == ("/usr/include/cuda_fp16.hpp", 7, 16)
    assert (inner.function, inner.inlined) == ("inner", outer)
    assert unknown == inner  # line 0
    assert (last.line, last.inlined) == (21, None)


def test_a_line_belongs_to_its_function():
    text = kernel(".loc 1 5 1\nret;") + '.entry second() { ret; }\n.file 1 "a.cu"'
    functions = assembly.parse(text).functions
    assert functions["k"].body[0].line == assembly.Line("a.cu", 5, 1, "k")
    assert functions["second"].body[0].line is None
