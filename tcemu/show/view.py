"""What an Explorer and a Prediction look like in a page with a kernel: one widget, whose other half is view.js."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tcemu.extras import require

#: A control as view.js takes it: kind, name, label, value, and what its kind needs.
Control = dict[str, Any]
#: What is called with the values that changed.
Asked = Callable[[Mapping[str, Any]], object]

_HERE = Path(__file__).parent


@cache
def view_class() -> type[Any]:
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


def view(controls: Sequence[Control], asked: Asked, button: str, head: str) -> Any:
    """A widget with these controls; the caller sets `html` and `said`. Calls `asked` with the values that changed.

    Typed values count only when the `button` is pressed. `head` is a question above the controls.
    """
    made = view_class()(controls=list(controls), button=button, head=head)
    listens(made, asked)
    return made


def listens(widget: Any, asked: Asked) -> None:
    """Let a widget call `asked` with the values that have changed in the page."""

    def answer(change: Mapping[str, Any]) -> None:
        # One message carries the whole answer and its number: the page leaves a control alone that has moved on.
        with widget.hold_sync():
            widget.answered = change["new"]["count"]
            asked(change["new"]["values"])

    widget.observe(answer, "asked")


def widget_bundle(widget: Any) -> dict[str, Any]:
    """The part of an output that only a page with a kernel understands."""
    bundle = widget._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    return {name: content for name, content in data.items() if name.startswith("application/")}
