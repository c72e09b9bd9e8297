"""Formats of a gate for CI systems: JUnit, GitHub, GitLab, Bencher, github-action-benchmark."""
