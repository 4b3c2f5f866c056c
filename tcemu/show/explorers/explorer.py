"""An explorer: a picture with controls, and the controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from numbers import Real
from typing import Any, Self

from tcemu.backend import load_soon
from tcemu.errors import OperandError, briefly, listing
from tcemu.show.picture import Picture
from tcemu.show.view import Control, listens, view_class, widget_bundle

Values = dict[str, Any]


@dataclass(frozen=True)
class Range:
    """A slider over the numbers from 0 to `high` in steps of `step`: whole numbers, unless the step is a fraction."""

    label: str
    high: float
    start: float = 0
    step: float = 1

    def takes(self, value: object, high: float) -> bool:
        """Whether the slider has a position for `value` if it ends at `high`."""
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= high:
            return False
        return Decimal(str(value)) % Decimal(str(self.step)) == 0

    def kept(self, value: Any) -> float:
        """The value as it is passed on: an int from a slider of whole numbers."""
        return int(value) if isinstance(self.step, int) else float(value)

    def accepts(self, high: float) -> str:
        """What it takes, in words."""
        if isinstance(self.step, int):
            return f"whole numbers from 0 to {high}"
        return f"numbers from 0 to {high} in steps of {self.step}"

    def control(self, name: str, value: float, high: float) -> Control:
        """The control as the view draws it."""
        place = {"name": name, "label": self.label, "value": value}
        return {"kind": "range", "low": 0, "high": high, "step": self.step, **place}


@dataclass(frozen=True)
class Choice:
    """A list to choose from."""

    label: str
    options: tuple[str, ...]
    start: str

    def takes(self, value: object, high: float) -> bool:
        """Whether `value` is in the list."""
        return value in self.options

    def kept(self, value: Any) -> str:
        """The value as it is passed on."""
        return str(value)

    def accepts(self, high: float) -> str:
        """What it takes, in words."""
        return listing(self.options)

    def control(self, name: str, value: str, high: float) -> Control:
        """The control as the view draws it."""
        return {"kind": "select", "name": name, "label": self.label, "value": value, "options": list(self.options)}


@cache
def _classes() -> tuple[type[Any], type[Any]]:
    """What every explorer is: a DOMWidget with the view of tcemu.show; and the trait that stands for a control."""
    shown = view_class()
    import traitlets

    class Position(traitlets.TraitType):  # type: ignore[type-arg]
        """The position of a control, which the explorer checks."""

        def validate(self, explorer: Any, value: object) -> Any:
            return explorer._check(self.name, value)  # noqa: SLF001

    class Shown(Explorer, shown):  # type: ignore[misc, valid-type]
        """An explorer in a page."""

    Shown.__name__ = Shown.__qualname__ = Explorer.__name__
    return Shown, Position


class Explorer:
    """A picture with controls: a widget of ipywidgets that has a trait for each control.

    `explorer.lane = 13` moves a control as if by hand, and `explorer.set(lane=13, register=1)` several; `observe`,
    `ipywidgets.link` and `jslink` take the controls by name, and boxes and tabs take the explorer.
    `explorer.at(lane=13)` is a new explorer that starts at other values, for a later cell.

    Controls of ipywidgets drive it, too: interactive_output(explorer.set, {"lane": IntSlider(max=31)}). It has its own
    because the handle of ipywidgets' sliders (8.1) has no name that a screen reader could say, which axe reports as
    aria-input-field-name, and because the ends of its sliders depend on its other controls.

    `draw` gets the controls' values by name. So does `limits`, which returns the largest values of the sliders that
    depend on other controls. `follow` gets the values before and after a control has moved, and returns the values that
    the other controls then take. Raises OperandError for a start that is not among a control's values, and for a
    control whose name an explorer uses otherwise.
    """

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """An explorer is a widget; the classes of widgets are imported when the first one is made."""
        shown: Any = _classes()[0]
        return shown.__new__(shown) if cls is Explorer else super().__new__(cls)

    def __init__(
        self,
        draw: Callable[..., Picture],
        controls: Mapping[str, Range | Choice],
        limits: Callable[..., Mapping[str, float]] = lambda **_: {},
        follow: Callable[[Values, Values], Values] = lambda _, after: after,
    ) -> None:
        self._draw, self._controls, self._limits, self._follow = draw, dict(controls), limits, follow
        self._values: Values = {name: control.start for name, control in controls.items()}
        for name, control in controls.items():
            if hasattr(self, name):
                raise OperandError(f"a control cannot be called {name!r}: every explorer has this attribute; rename it")
            self._values[name] = self._check(name, control.start)
        self._picture = draw(**self._values)
        widget: Any = self
        position = _classes()[1]
        widget.add_traits(**{name: position(self._values[name]).tag(sync=True) for name in controls})
        widget.observe(self._moved, list(controls))
        listens(self, lambda values: self.set(**values))
        self._tell()
        super().__init__()

    def _moved(self, change: Mapping[str, Any]) -> None:
        """Draw what a trait says; a trait whose picture cannot be drawn goes back."""
        name, value = change["name"], change["new"]
        if value == self._values[name]:
            return
        try:
            self.set(**{name: value})
        except Exception:
            setattr(self, name, self._values[name])
            raise

    @property
    def values(self) -> Values:
        """The current values of the controls."""
        return dict(self._values)

    @property
    def picture(self) -> Picture:
        """The current picture."""
        return self._picture

    def at(self, **values: Any) -> Explorer:
        """A new explorer that starts where this one started, except for `values`; this one stays as it is.

        Raises OperandError for a control or value that does not exist.
        """
        fresh = Explorer(self._draw, self._controls, self._limits, self._follow)
        fresh.set(**values)
        return fresh

    def set(self, **values: Any) -> Picture:
        """Move controls, and return the new picture. Raises OperandError for a control or value that does not exist."""
        for name in values:
            if name not in self._controls:
                raise OperandError(f"no control is called {name!r}; there are {listing(self._controls, 'and')}")
        before = self._values
        try:
            for name in (name for name in self._controls if name in values):  # a list first: sliders depend on it
                self._check(name, values[name])
                self._move(name, values[name])
            self._picture = self._draw(**self._values)
        except Exception:
            self._values = before
            raise
        self._tell()
        return self._picture

    def _highs(self) -> Mapping[str, float]:
        """The largest value of each slider while the other controls are where they are."""
        fixed = {name: control.high for name, control in self._controls.items() if isinstance(control, Range)}
        return fixed | dict(self._limits(**self._values))

    def _check(self, name: str, value: object) -> Any:
        """The value as it is passed on, if the control takes it."""
        control, high = self._controls[name], self._highs().get(name, 0)
        if not control.takes(value, high):
            raise OperandError(f"{name} cannot be {briefly(value)}: it takes {control.accepts(high)}")
        return control.kept(value)

    def _move(self, name: str, value: Any) -> None:
        """Move one control; the others follow, and stay within their limits."""
        self._values = self._follow(self._values, self._values | {name: self._controls[name].kept(value)})
        highs = self._highs()
        self._values = {name: min(now, highs[name]) if name in highs else now for name, now in self._values.items()}

    # ------------------------------------------------------------------------------------------ in a notebook

    def _standing(self) -> list[Control]:
        highs = self._highs()
        return [each.control(name, self._values[name], highs.get(name, 0)) for name, each in self._controls.items()]

    def _tell(self) -> None:
        """Give the page the picture, what it says, and where the controls stand."""
        widget: Any = self
        with widget.hold_sync():
            widget.controls, widget.html = self._standing(), self._picture.html
            widget.said = f"{self._picture.title}. {self._picture.description.partition('. ')[0]}."
            for name, value in self._values.items():
                setattr(self, name, value)

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """The widget for a page with a kernel, and the current picture for one without."""
        load_soon()  # each position of a slider is a computation
        names = listing([control.label for control in self._controls.values()], "and")
        note = f"<p><em>With a running kernel, there are controls for {names} here.</em></p>"
        saved = {"text/html": note + self._picture.portable_html, "text/plain": f"{self!r}\n{self._picture}"}
        return widget_bundle(super()) | saved

    def __repr__(self) -> str:
        return f"<Explorer {', '.join(f'{name}={value!r}' for name, value in self._values.items())}>"

    def __str__(self) -> str:
        return str(self._picture)


def controls(start: Mapping[str, Any], /, **made: int | Sequence[str] | Range | Choice) -> dict[str, Range | Choice]:
    """A control for each name: a number is the end of a slider, strings are a list; `start` says where they begin.

    Raises OperandError for a start without a control.

    >>> from tcemu.show.explorers.explorer import controls
    >>> controls({"lane": 5}, lane=31)
    {'lane': Range(label='lane', high=31, start=5, step=1)}
    """
    ready: dict[str, Range | Choice] = {}
    for name, each in made.items():
        if isinstance(each, Range | Choice):
            ready[name] = each
        else:
            ready[name] = Range(name, each) if isinstance(each, int) else Choice(name, tuple(each), each[0])
    unknown = [name for name in start if name not in ready]
    if unknown:
        raise OperandError(f"no control is called {unknown[0]!r}; there are {listing(ready, 'and')}")
    return {name: replace(each, start=start.get(name, each.start)) for name, each in ready.items()}
