"""Benchmarks: jobs by a matrix, their samples, comparisons and gates."""
