"""Measures rsctl: `python -m benchmarks`. See README.md."""
