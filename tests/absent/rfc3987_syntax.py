"""In place of the package of this name, which jsonschema does without; see conftest.py."""

raise ImportError("the tests do without this package")
