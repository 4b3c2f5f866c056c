"""Meanings as native code: a function for each opcode that computes 32 lanes after 32 lanes of arrays."""

import ctypes
import re

import llvmlite.binding as ll
import numpy as np

from tcemu import alu
from tcemu.alu.row import bits
from tcemu.native.warp import LANES, WarpCode


def text(opcode, *, pair=False, constants=()):
    """LLVM text of a function of pointers to the operands' and the results' lanes; the types of both; declarations."""
    row = alu.find(opcode, pair=pair)
    code = WarpCode()
    operands = [*row.operands, *["pred"] * row.carry_in]
    results = [*row.results, *["pred"] * row.carry_out]
    constants = dict(constants)
    places = [f"%p{number}" for number in range(len(operands) + len(results))]
    values = [
        code.constant(constants[number], bits(kind)) if number in constants else _load(code, places[number], bits(kind))
        for number, kind in enumerate(operands)
    ]
    found = row.meaning(code, *values)
    for place, value in zip(places[len(operands) :], found if isinstance(found, tuple) else (found,), strict=True):
        at = code.let(f"getelementptr i8, ptr {place}, i64 {_offset(code, value.bits)}")
        if value.bits == 1:
            code.emit(f"store i32 {code.let(f'bitcast {value.type} {value.name} to i32')}, ptr {at}")
        else:
            code.emit(f"store {value.type} {value.name}, ptr {at}, align 4")
    name = re.sub(r"\W", "_", opcode)
    arguments = ", ".join(f"ptr {place}" for place in places)
    body = [
        f"define void @{name}({arguments}, i64 %count) {{",
        "start:",
        "  br label %loop",
        "loop:",
        "  %k = phi i64 [ 0, %start ], [ %next, %loop ]",
        *code.lines,
        "  %next = add i64 %k, 1",
        "  %more = icmp ult i64 %next, %count",
        "  br i1 %more, label %loop, label %end",
        "end:",
        "  ret void",
        "}",
    ]
    return name, "\n".join(body), operands, results, code.declarations


def _offset(code, width):
    return code.let(f"mul i64 %k, {LANES * width // 8}")


def _load(code, place, width):
    at = code.let(f"getelementptr i8, ptr {place}, i64 {_offset(code, width)}")
    if width == 1:
        word = code.let(f"load i32, ptr {at}, align 4")
        return code.value(code.let(f"bitcast i32 {word} to <32 x i1>"), 1)
    return code.value(code.let(f"load <32 x i{width}>, ptr {at}, align 4"), width)


class Lanes:
    """The compiled code of some opcodes, in one module."""

    def __init__(self, opcodes, level=0, **options):
        ll.initialize_native_target()
        ll.initialize_native_asmprinter()
        self.made = {opcode: text(opcode, **options) for opcode in opcodes}
        declarations = {name: each for made in self.made.values() for name, each in made[4].items()}
        module = [*declarations.values(), *(made[1] for made in self.made.values())]
        self.module = ll.parse_assembly("\n".join(module))
        self.module.verify()
        self.machine = ll.Target.from_default_triple().create_target_machine(
            cpu=ll.get_host_cpu_name(),
            features=ll.get_host_cpu_features().flatten(),
            opt=level,
            reloc="pic",
            codemodel="small",
            jit=True,
        )
        self._engine = None

    def assembly(self):
        """The processor's instructions."""
        return self.machine.emit_assembly(self.module)

    def run(self, opcode, *operands):
        """The results, as arrays of unsigned integers or masks, of operands whose length is a multiple of 32."""
        if self._engine is None:
            self._engine = ll.create_mcjit_compiler(self.module, self.machine)
            self._engine.finalize_object()
        name, _, kinds, results, _ = self.made[opcode]
        count = len(operands[0])
        given = [
            np.packbits(x.reshape(-1, 32), axis=1, bitorder="little") if kind == "pred" else np.ascontiguousarray(x)
            for x, kind in zip(operands, kinds, strict=True)
        ]
        found = [np.zeros(count * max(bits(kind), 1) // 8, np.uint8) for kind in results]
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(given) + len(found)), ctypes.c_int64)(
            self._engine.get_function_address(name)
        )
        function(*(x.ctypes.data for x in (*given, *found)), count // 32)
        return [
            np.unpackbits(x, bitorder="little").astype(bool) if kind == "pred" else x.view(f"u{bits(kind) // 8}")
            for x, kind in zip(found, results, strict=True)
        ]
