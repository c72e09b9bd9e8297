"""Runs and benches as tables: their data, and the formats of the files."""
