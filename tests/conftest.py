"""What all tests share: how hypothesis searches."""

import os

from hypothesis import settings

# No deadline: the first example may compile a kernel. In continuous integration the same examples each time, so that a
# failure there is one that the change caused; elsewhere new ones each time, so that they are searched in the end.
settings.register_profile("tcemu", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("tcemu")
