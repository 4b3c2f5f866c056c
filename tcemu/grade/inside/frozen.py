"""Where numba finds compiled kernels in the box: beside their sources, read-only and compiled beforehand."""

from __future__ import annotations

import numba.core.caching as caching

#: numba changed the name when it let others choose a locator.
_Beside = getattr(caching, "InTreeCacheLocator", None) or caching._InTreeCacheLocator  # noqa: SLF001


class Frozen(_Beside):  # type: ignore[misc,valid-type]
    """The folder beside the source, which need not be writable."""

    def ensure_cache_path(self) -> None:
        """Nothing: what is not there is compiled, and not kept."""
