"""Where numba finds compiled kernels if nothing may be written: in a folder that another process has filled.

The grader's boxes name it in NUMBA_CACHE_LOCATOR_CLASSES.
"""

from __future__ import annotations

import os
from typing import Any

from numba.core import caching

#: numba changed the name when it let others choose a locator.
_Beside: Any = getattr(caching, "InTreeCacheLocator", None) or caching._InTreeCacheLocator  # noqa: SLF001


class Frozen(_Beside):  # type: ignore[misc]
    """The grader's folder, by default the one beside the source; it need not be writable."""

    def ensure_cache_path(self) -> None:
        """Nothing: what is not there is compiled, but not kept."""

    def get_cache_path(self) -> str:
        """The folder."""
        return os.environ.get("TCEMU_KERNEL_CACHE") or str(super().get_cache_path())
