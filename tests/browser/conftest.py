"""A JupyterLab and a browser for each file that opens notebooks in it.

Not for several files: Playwright's event loop runs as long as the browser is open, and other tests need their own.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab import Lab, browser, jupyterlab


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of JupyterLab; the notebooks are in `work`."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def fresh(home: Path) -> Iterator[Callable[[], Lab]]:
    """Open JupyterLab in a fresh page."""
    with jupyterlab(home) as address, browser(address) as opens:
        yield opens
