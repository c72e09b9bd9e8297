"""Vertex AI custom jobs. `target` is the target; the code that renders is pure, `client` makes the
calls.
"""
