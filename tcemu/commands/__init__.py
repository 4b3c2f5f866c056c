"""Commands of ``tcemu`` that are too long for cli.py, a module each; what they need is imported when they run."""
