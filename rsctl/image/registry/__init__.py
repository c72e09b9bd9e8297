"""Registries: where images are pushed, how to log in there, and what is there already."""
