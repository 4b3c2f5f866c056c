"""Which operands the instructions of tcgen05 take in a program's text, as ptxas 13.5 does; others are told what fits.

A front end describes each operand (`Given`); `assigned` says which role each has, because tcgen05.mma has an optional
one in the middle, and an A that may be a descriptor or an address.
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


class Given(NamedTuple):
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


def assigned(instruction: Instruction, given: Sequence[Given]) -> list[Operand]:
    """The operand that each given one is, in the same order. Raises OperandError, which says what does not fit."""
    operands = [_sized(instruction, each) for each in instruction.operands]
    found = _matched(instruction, operands, given)
    if found is None:
        raise OperandError(f"{_complaint(instruction, operands, given)} (PTX ISA {instruction.section})")
    wrong = next((told for one, each in zip(found, given, strict=True) if (told := _wrong(instruction, one, each))), "")
    if wrong or (wrong := _wrong_together(instruction, {each.role for each in found})):
        raise OperandError(f"{instruction}: {wrong} (PTX ISA {instruction.section})")
    return found


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


def _matched(instruction: Instruction, operands: Sequence[Operand], given: Sequence[Given]) -> list[Operand] | None:
    """The operands in the order of what is given; optional ones that are not there are left out."""
    if not operands:
        return None if given else []
    first, rest = operands[0], operands[1:]
    if given and _FORMS[first.kind](instruction, first, given[0]):
        later = _matched(instruction, rest, given[1:])
        if later is not None:
            return [first, *later]
    return _matched(instruction, rest, given) if first.optional else None


def _complaint(instruction: Instruction, operands: Sequence[Operand], given: Sequence[Given]) -> str:
    """What is wrong: too many, too few, or the first that does not fit."""
    needed = [each for each in operands if not each.optional]
    if not len(needed) <= len(given) <= len(operands):
        names = listing([f"{each.role}{'?' * each.optional}" for each in operands], "and") or "nothing"
        return f"{instruction} takes {names}; got {len(given)} operand{'s' * (len(given) != 1)}"
    at = 0
    for operand in operands:
        if at < len(given) and _FORMS[operand.kind](instruction, operand, given[at]):
            at += 1
        elif not operand.optional:
            got = given[at].text or given[at].form if at < len(given) else "nothing"
            return f"{instruction}: {operand.role} is {_described(instruction, operand)}; got {got}"
    got = given[at].text or given[at].form
    return f"{instruction}: {got} is no operand that it takes there"


# ---------------------------------------------------------------------------------------------------- forms


def _is_register(given: Given, bits: int) -> bool:
    return given.form == "register" and given.bits == bits and not given.floats


def _tensor(_: Instruction, __: Operand, given: Given) -> bool:
    return given.form == "address" and given.bits == 32 and not given.floats


def _described_tile(instruction: Instruction, operand: Operand, given: Given) -> bool:
    if operand.described and _tensor(instruction, operand, given):
        return True
    return not instruction.facts.shifts & operand.described and (_is_register(given, 64) or given.form == "number")


def _address(_: Instruction, __: Operand, given: Given) -> bool:
    return given.form == "address" and not given.floats and given.bits in (0, 32, 64)


def _value(instruction: Instruction, operand: Operand, given: Given) -> bool:
    if (instruction.family, operand.role) in _IN_BRACES:
        return _vector(instruction, operand, given)
    if operand.written:  # what tcgen05.ld.red found
        return given.form in ("register", "vector") and given.bits == 32 and given.registers == 1
    return _is_register(given, operand.bits) or given.form == "number"


def _vector(_: Instruction, operand: Operand, given: Given) -> bool:
    return given.form == "vector" and given.bits == 32 and given.registers == operand.registers


def _number(_: Instruction, __: Operand, given: Given) -> bool:
    return given.form == "number"


def _predicate(_: Instruction, __: Operand, given: Given) -> bool:
    return given.form in ("predicate", "number")


#: What fits an operand of each kind.
_FORMS: dict[str, Callable[[Instruction, Operand, Given], bool]] = {
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


def _wrong(instruction: Instruction, operand: Operand, given: Given) -> str:
    """What is wrong with a number, which ptxas checks in the text; empty if nothing is."""
    if given.form != "number":
        return ""
    if operand.role == "n_columns":
        return _wrong_columns(given.value, "exclusive" in instruction.words)
    if operand.role == "scale_input_d" and instruction.words["kind"] in _FLOATS and given.value not in range(16):
        return f"scale_input_d is {given.value}; it must be from 0 to 15"
    if operand.role == "cta_mask" and operand.bits == 16 and not 0 <= given.value < 1 << 16:
        return f"the mask of blocks is {given.value}; it has 16 bits"
    return ""


def _wrong_columns(count: int, exclusive: bool) -> str:
    if count <= 0 or count % _COLUMNS:
        return f"the number of columns is {count}; it must be a positive multiple of {_COLUMNS}"
    if not exclusive and (count > _MOST or count & count - 1):
        return f"the number of columns is {count}; it must be a power of two from {_COLUMNS} to {_MOST}"
    return ""
