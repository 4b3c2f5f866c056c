"""The table of number formats, one codec for all of them, and how elements are packed into registers."""

from tcemu.formats.container import Container
from tcemu.formats.exact import Rounding, Unpacked, round_exact, unpack
from tcemu.formats.format import Fields, Format
from tcemu.formats.table import FORMATS, lookup

__all__ = ["FORMATS", "Container", "Fields", "Format", "Rounding", "Unpacked", "lookup", "round_exact", "unpack"]
