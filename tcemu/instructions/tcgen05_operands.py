"""Which operands the instructions of tcgen05 take in PTX text, as ptxas 13.5 does, and the errors that others get.

A front end describes each operand (`Argument`); `assigned` says which role each has, because tcgen05.mma has an
optional one in the middle, and an A that may be a descriptor or an address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from tcemu.errors import IllegalInstruction, OperandError, listing
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.operand import Operand
from tcemu.instructions.targets import Gate, Target

Form = Literal["register", "address", "vector", "number", "predicate", "other"]
#: Roles that are several registers in braces, even if they are one.
_IN_BRACES = {("tcgen05.ld", "d"), ("tcgen05.ld.red", "d"), ("tcgen05.st", "a")}
#: The multiples and the largest number of columns of an allocation.
_COLUMNS, _MOST = 32, 512
#: Where scale_input_d of floats exists.
_SCALES_D = Gate("8.6", ("sm_100f",))


class Argument(NamedTuple):
    """An operand as the text has it."""

    form: Form
    #: Bits of the register, of an address's register, or of each register of a vector; 0 for an address by name.
    bits: int = 0
    #: Whether the registers are declared as floats.
    floats: bool = False
    #: Registers of a vector.
    registers: int = 1
    #: A number.
    value: int = 0
    text: str = ""


def assigned(instruction: Instruction, arguments: Sequence[Argument]) -> list[Operand]:
    """The operand that each given one is, in the same order. Raises OperandError, which says what does not fit."""
    operands = [_sized(instruction, each) for each in instruction.operands]
    matched = _matched(instruction, operands, arguments)
    if matched is None:
        raise OperandError(f"{_complaint(instruction, operands, arguments)} (PTX ISA {instruction.section})")
    wrong = next(
        (problem for one, each in zip(matched, arguments, strict=True) if (problem := _wrong(instruction, one, each))),
        "",
    )
    if wrong or (wrong := _wrong_together(instruction, {each.role for each in matched})):
        raise OperandError(f"{instruction}: {wrong} (PTX ISA {instruction.section})")
    return matched


def _wrong_together(instruction: Instruction, roles: set[str]) -> str:
    """What is wrong with two optional operands beside each other; empty if nothing is."""
    words, both = instruction.words, {"disable_output_lane", "scale_input_d"}
    if not both <= roles or "sp" not in words or words["kind"] in _FLOATS:
        return ""
    return f"with .sp and .{words['kind']}, it takes disable_output_lane or scale_input_d, not both"


def check_target(instruction: Instruction, roles: Sequence[Operand], target: Target) -> None:
    """Raise IllegalInstruction if an operand, rather than the opcode, does not exist on a target."""
    scaled = any(each.role == "scale_input_d" for each in roles)
    if scaled and instruction.words["kind"] in _FLOATS and not _SCALES_D.admits(target):
        raise IllegalInstruction(
            f"{instruction} does not take scale_input_d on {target}: it needs {_SCALES_D.targets} "
            f"(PTX ISA {instruction.section}, Target ISA Notes)."
        )


_FLOATS = ("kind::f16", "kind::tf32")


def _sized(instruction: Instruction, operand: Operand) -> Operand:
    """The mask of lanes has a register for every 32 lanes of each block."""
    if operand.kind != "lane mask":
        return operand
    return replace(operand, registers=4 * int(instruction.words["cta_group"][-1]))


def _matched(
    instruction: Instruction, operands: Sequence[Operand], arguments: Sequence[Argument]
) -> list[Operand] | None:
    """The operands in the order of what is given; optional ones that are not there are left out."""
    if not operands:
        return None if arguments else []
    first, rest = operands[0], operands[1:]
    if arguments and _FORMS[first.kind](instruction, first, arguments[0]):
        later = _matched(instruction, rest, arguments[1:])
        if later is not None:
            return [first, *later]
    return _matched(instruction, rest, arguments) if first.optional else None


def _complaint(instruction: Instruction, operands: Sequence[Operand], arguments: Sequence[Argument]) -> str:
    """What is wrong: too many, too few, or the first that does not fit."""
    needed = [each for each in operands if not each.optional]
    if not len(needed) <= len(arguments) <= len(operands):
        names = listing([f"{each.role}{'?' * each.optional}" for each in operands], "and") or "nothing"
        return f"{instruction} takes {names}; got {len(arguments)} operand{'s' * (len(arguments) != 1)}"
    at = 0
    for operand in operands:
        if at < len(arguments) and _FORMS[operand.kind](instruction, operand, arguments[at]):
            at += 1
        elif not operand.optional:
            got = arguments[at].text or arguments[at].form if at < len(arguments) else "nothing"
            return f"{instruction}: {operand.role} is {_described(instruction, operand)}; got {got}"
    got = arguments[at].text or arguments[at].form
    return f"{instruction}: {got} is no operand that it takes there"


# ---------------------------------------------------------------------------------------------------- forms


def _is_register(argument: Argument, bits: int) -> bool:
    return argument.form == "register" and argument.bits == bits and not argument.floats


def _tensor(_: Instruction, __: Operand, argument: Argument) -> bool:
    return argument.form == "address" and argument.bits == 32 and not argument.floats


def _described_tile(instruction: Instruction, operand: Operand, argument: Argument) -> bool:
    if operand.described and _tensor(instruction, operand, argument):
        return True
    return not instruction.facts.shifts & operand.described and (
        _is_register(argument, 64) or argument.form == "number"
    )


def _address(_: Instruction, __: Operand, argument: Argument) -> bool:
    return argument.form == "address" and not argument.floats and argument.bits in (0, 32, 64)


def _value(instruction: Instruction, operand: Operand, argument: Argument) -> bool:
    if (instruction.family, operand.role) in _IN_BRACES:
        return _vector(instruction, operand, argument)
    if operand.written:  # what tcgen05.ld.red found
        return argument.form in ("register", "vector") and argument.bits == 32 and argument.registers == 1
    return _is_register(argument, operand.bits) or argument.form == "number"


def _vector(_: Instruction, operand: Operand, argument: Argument) -> bool:
    return argument.form == "vector" and argument.bits == 32 and argument.registers == operand.registers


def _number(_: Instruction, __: Operand, argument: Argument) -> bool:
    return argument.form == "number"


def _predicate(_: Instruction, __: Operand, argument: Argument) -> bool:
    return argument.form in ("predicate", "number")


#: What fits an operand of each kind.
_FORMS: dict[str, Callable[[Instruction, Operand, Argument], bool]] = {
    "tensor address": _tensor, "descriptor": _described_tile, "pointer": _address, "address": _address,
    "value": _value, "immediate": _number, "predicate": _predicate, "lane mask": _vector,
}  # fmt: skip
_WORDS = {
    "tensor address": "an address in Tensor Memory: a 32-bit register in brackets",
    "descriptor": "a descriptor: a 64-bit register",
    "pointer": "an address in shared memory, in brackets",
    "address": "an address in brackets",
    "immediate": "a number",
    "predicate": "a predicate",
}


def _described(instruction: Instruction, operand: Operand) -> str:
    if operand.kind == "lane mask" or (instruction.family, operand.role) in _IN_BRACES:
        return f"{operand.registers} register{'s' * (operand.registers != 1)} of 32 bits in braces"
    if operand.described:
        where = "with .ashift, it is in Tensor Memory: " if instruction.facts.shifts else "a 64-bit descriptor, or "
        return f"{where}an address in Tensor Memory in brackets"
    return _WORDS.get(operand.kind, f"a register of {operand.bits} bits")


# ---------------------------------------------------------------------------------------------------- numbers


def _wrong(instruction: Instruction, operand: Operand, argument: Argument) -> str:
    """What is wrong with a number, which ptxas checks in the text; empty if nothing is."""
    if argument.form != "number":
        return ""
    if operand.role == "n_columns":
        return _wrong_columns(argument.value, "exclusive" in instruction.words)
    if operand.role == "scale_input_d" and instruction.words["kind"] in _FLOATS and argument.value not in range(16):
        return f"scale_input_d is {argument.value}; it must be from 0 to 15"
    if operand.role == "cta_mask" and operand.bits == 16 and not 0 <= argument.value < 1 << 16:
        return f"the mask of blocks is {argument.value}; it has 16 bits"
    return ""


def _wrong_columns(count: int, exclusive: bool) -> str:
    if count <= 0 or count % _COLUMNS:
        return f"the number of columns is {count}; it must be a positive multiple of {_COLUMNS}"
    if not exclusive and (count > _MOST or count & count - 1):
        return f"the number of columns is {count}; it must be a power of two from {_COLUMNS} to {_MOST}"
    return ""
