"""Runs and benches as tables: what they are made of, and the formats they are written in."""
