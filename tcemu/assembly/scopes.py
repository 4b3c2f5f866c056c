"""What a name means where it is used: registers, variables and labels of nested scopes, and special registers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from tcemu.assembly.operands import Operand, Parts, Register, Sink, Special, Symbol, Vector

#: Special registers (PTX ISA 9.1, chapter 10), with the components of those that are vectors.
_INDEXED = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
SPECIAL = frozenset(
    [
        *_INDEXED,
        *(f"{name}.{axis}" for name in _INDEXED for axis in "xyz"),
        "laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid",
        "is_explicit_cluster", "cluster_ctarank", "cluster_nctarank",
        *(f"lanemask_{order}" for order in ("eq", "le", "lt", "ge", "gt")),
        "clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi",
        *(f"pm{number}{width}" for number in range(8) for width in ("", "_64")),
        *(f"envreg{number}" for number in range(32)),
        *(f"reserved_smem_offset_{each}" for each in ("begin", "end", "cap", "0", "1")),
        "total_smem_size", "aggr_smem_size", "dynamic_smem_size", "current_graph_exec",
    ]
)  # fmt: skip
#: The components of a vector register, under both of their names.
COMPONENTS = {"x": 0, "y": 1, "z": 2, "w": 3, "r": 0, "g": 1, "b": 2, "a": 3}
#: What may follow a register in a video instruction.
_SELECTOR = re.compile(r"h[0-3]+|b[0-7]+")
_DIGITS = re.compile(r"[0-9]+$")
_FIXED: dict[str, Operand] = {"_": Sink()}


class Names:
    """The names of a function that are taken. A name that is declared again gets a number: ``%r1#2``."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = Counter(list(taken))  # of a mapping, Counter would take the values
        #: The registers that are used, with their types.
        self.registers: dict[str, str] = {}

    def unique(self, name: str) -> str:
        """The name under which the function knows what is declared as `name` now."""
        self._taken[name] += 1
        return name if self._taken[name] == 1 else f"{name}#{self._taken[name]}"


class Scope:
    """The declarations between two braces, and those around them."""

    __slots__ = ("_around", "_declared", "_own", "_ranges", "labels", "names", "outer")

    def __init__(self, names: Names, outer: Scope | None = None) -> None:
        self.names, self.outer = names, outer
        #: Labels by their names in the text, under their unique ones.
        self.labels: dict[str, str] = {}
        #: Registers with their types; ranges (``%r<100>``) by prefix, with size and type.
        self._declared: dict[str, str] = {}
        self._ranges: dict[str, tuple[int, str]] = {}
        #: What names have meant so far: those that are declared here, and those around.
        self._own: dict[str, Operand] = {}
        self._around: dict[str, Operand] = dict(_FIXED)

    def register(self, name: str, type: str, many: int | None = None) -> None:  # noqa: A002 - PTX's word
        """Declare a register or, as ``name<many>``, several."""
        if many is None:
            self._declared[name] = type
        else:
            self._ranges[name] = many, type
        self._around = dict(_FIXED)  # the new one may hide what has been used

    def variable(self, name: str) -> str:
        """Declare a variable; the result is its unique name."""
        unique = self.names.unique(name)
        self._own[name] = Symbol(unique)
        return unique

    def declared(self) -> Iterator[str]:
        """The names that are declared here and around, and of a range its last one."""
        yield from (*self._declared, *self._own, *(f"{prefix}{many - 1}" for prefix, (many, _) in self._ranges.items()))
        if self.outer is not None:
            yield from self.outer.declared()

    def declares(self, name: str) -> bool:
        """Whether this scope itself declares a register or variable of that name."""
        return name in self._own or name in self._declared or self._ranged(name) is not None

    def lookup(self, name: str) -> Operand | None:
        """What a name means here; None if nothing is declared under it, as with a label further below."""
        operand = self._own.get(name) or self._around.get(name)
        if operand is None:
            operand = self._first_use(name)
            if operand is None:
                operand = self.outer.lookup(name) if self.outer is not None else _special(name)
                if operand is not None:
                    self._around[name] = operand
        return operand

    def label(self, name: str) -> str | None:
        """The unique name of a label that is declared here or around."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.outer
        return None

    def _first_use(self, name: str) -> Operand | None:
        """A register of this scope, which is used for the first time, or a component or parts of one."""
        type = self._declared.get(name) or self._ranged(name)  # noqa: A001 - PTX's word
        if type is not None:
            operand = self._own[name] = self._made(name, type)
            return operand
        stem, dot, component = name.rpartition(".")
        if dot and component in COMPONENTS:
            vector = self._own.get(stem) or self._first_use(stem)
            if isinstance(vector, Vector) and COMPONENTS[component] < len(vector.items):
                return vector.items[COMPONENTS[component]]
        if dot and _SELECTOR.fullmatch(component):
            register = self._own.get(stem) or self._first_use(stem)
            if isinstance(register, Register):
                return Parts(register, component)
        return None

    def _ranged(self, name: str) -> str | None:
        digits = _DIGITS.search(name)
        if digits is None or not self._ranges:
            return None
        for cut in range(digits.start(), len(name)):
            many, type = self._ranges.get(name[:cut], (0, ""))  # noqa: A001 - PTX's word
            number = name[cut:]
            if many and len(number) < 10 and int(number) < many and (number == "0" or number[0] != "0"):
                return type
        return None

    def _made(self, name: str, type: str) -> Operand:  # noqa: A002 - PTX's word
        vector, _, element = type.rpartition(".")
        unique = self.names.unique(name)
        if not vector:
            self.names.registers[unique] = element
            return Register(unique)
        parts = tuple(Register(f"{unique}.{'xyzw'[at]}") for at in range(int(vector[1:])))
        self.names.registers |= {each.name: element for each in parts}
        return Vector(parts)


def _special(name: str) -> Operand | None:
    return Special(name[1:]) if name[:1] == "%" and name[1:] in SPECIAL else None
