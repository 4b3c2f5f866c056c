"""Fragment layouts as one-line patterns, and fragments: a layout, a format and how elements share registers."""

from tcemu.layouts.fragment import Fragment
from tcemu.layouts.layout import Layout

__all__ = ["Fragment", "Layout"]
