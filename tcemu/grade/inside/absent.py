"""What stands for tcemu where it is not: objects that know how they would have been made, and nothing else.

`tcemu.parse(opcode).fragments["a"].lanes` describes an instruction, and no answer follows from that. So the outside
tells it: it gets the steps, takes them with the real package, and sends a number. It does the same with a call that the
exercise allows. All else stays absent: sums of it, functions of it, elements of its arrays. Whoever needs to know what
it is gets Unknown.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Self

from tcemu.errors import CourseError
from tcemu.grade.inside.wire import DTYPES, Writer

#: How something absent would have been made: ("name", "tcemu.parse"), ("call", how, arguments, named arguments),
#: ("attribute", how, name), ("item", how, key), ("record", name, fields); and () for what nobody tells, as a sum.
How = tuple[Any, ...]


class Unknown(TypeError):  # noqa: N818 - what it is
    """The notebook needs to know what something of tcemu's is."""

    #: how often that has happened
    times = 0

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        Unknown.times += 1


def _nobody(_: How) -> Any:
    return None


#: Asks the outside what something is: its kind and a plain value, or None. Alone replaces it.
ask: Callable[[How], Any] = _nobody


def of(how: How) -> Any:
    """What was made so: a plain value if the outside tells it, and otherwise Absent."""
    match ask(how):
        case ["plain", value]:
            return value
        case ["dtype", str(name)]:
            return DTYPES[name]
        case ["refused", str(text)]:
            raise CourseError(text)
        case ["named", dict(parts)]:
            return namedtuple("Shape", parts)(**parts)  # noqa: PYI024 - whatever names it has
    return Absent(how)


class Absent:
    """Whatever tcemu would have been: what is done with it is absent, too, unless the outside tells it."""

    def __init__(self, how: How = ()) -> None:
        self._how = how

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call it, where tcemu is, if the exercise allows that."""
        return of(self._how and ("call", self._how, tuple(map(_how, arguments)), _named(named)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return of(self._how and ("attribute", self._how, name))

    def __getitem__(self, key: Any) -> Any:
        return of(self._how and ("item", self._how, key))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def keys(self) -> list[str]:
        """The names in it, if it has some."""
        match ask(self._how):
            case ["names", list(names)]:
                return names
        return self._unknown()

    def values(self) -> list[Any]:
        """What the names in it stand for."""
        return [self[name] for name in self.keys()]

    def items(self) -> list[tuple[str, Any]]:
        """The names in it, and what they stand for."""
        return [(name, self[name]) for name in self.keys()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End what never began."""

    def _unknown(self, *_: Any) -> NoReturn:
        raise Unknown("tcemu is not here: the exercise asks for work without it")

    def _absent(self, *_: Any, **__: Any) -> Absent:
        return Absent()

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __array__ = __instancecheck__ = _unknown
    __hash__ = _unknown
    __array_ufunc__ = __array_function__ = _absent

    def __repr__(self) -> str:
        return "<absent>"

    def __format__(self, _: str) -> str:
        return repr(self)


_SIGNS = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or"
_OTHERS = "eq ne lt le gt ge neg pos abs invert round floor ceil trunc"
for _name in (f"{_side}{_sign}" for _signs, _sides in ((_SIGNS, ("", "r")), (_OTHERS, ("",)))
              for _sign in _signs.split() for _side in _sides):  # fmt: skip
    setattr(Absent, f"__{_name}__", Absent._absent)  # noqa: SLF001 - our own


def record(name: str, *fields: Any) -> Absent:
    """One of the package's records, from outside."""
    return Absent(("record", name, fields))


def made(value: Any) -> list[Any] | None:
    """How something absent would have been made, for the outside, which makes it; None for anything else."""
    if type(value) is not Absent:
        return None
    writer = Writer()
    held = ["made", writer.write(value._how)]  # noqa: SLF001 - our own
    return None if writer.parts else held


def _how(value: Any) -> Any:
    """An argument: what is absent as the way in which it was made."""
    return ("absent", value._how) if type(value) is Absent else value  # noqa: SLF001


def _named(arguments: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, _how(value)) for name, value in arguments.items())
