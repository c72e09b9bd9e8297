"""The local store of runs."""
