"""What an Explorer and a Prediction look like in a page with a kernel: one widget, whose other half is view.js."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tcemu.backend import load_soon
from tcemu.errors import require

#: A control as view.js takes it: kind, name, label, value, and what its kind needs.
Control = dict[str, Any]

_HERE = Path(__file__).parent


@cache
def _view() -> type[Any]:
    """The widget's class; anywidget takes a second to import."""
    require("course", "a picture that answers", "anywidget", "traitlets")
    import anywidget
    import traitlets

    class View(anywidget.AnyWidget):
        _esm = (_HERE / "view.js").read_text(encoding="utf-8")
        _css = (_HERE / "view.css").read_text(encoding="utf-8")
        controls: Any = traitlets.List().tag(sync=True)
        html = traitlets.Unicode().tag(sync=True)
        said = traitlets.Unicode().tag(sync=True)
        head = traitlets.Unicode().tag(sync=True)
        button = traitlets.Unicode().tag(sync=True)
        asked = traitlets.Dict().tag(sync=True)
        answered = traitlets.Int().tag(sync=True)

    return View


def view(
    controls: Sequence[Control], asked: Callable[[Mapping[str, Any]], object], button: str = "", head: str = ""
) -> Any:
    """A widget with these controls; the caller sets `html` and `said`. Calls `asked` with the values that changed.

    With a `button`, typed values count only when it is pressed. `head` is a question above the controls.
    """
    if not button:  # each position of a slider is a computation
        load_soon()
    made = _view()(controls=list(controls), button=button, head=head)

    def answer(change: Mapping[str, Any]) -> None:
        # One message carries the whole answer and its number: the page leaves a control alone that has moved on.
        with made.hold_sync():
            made.answered = change["new"]["count"]
            asked(change["new"]["values"])

    made.observe(answer, "asked")
    return made


def widget_bundle(widget: Any) -> dict[str, Any]:
    """The part of an output that only a page with a kernel understands."""
    found = widget._repr_mimebundle_()
    data = found[0] if isinstance(found, tuple) else found
    return {name: content for name, content in data.items() if name.startswith("application/")}
