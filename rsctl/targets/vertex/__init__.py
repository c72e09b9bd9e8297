"""Vertex AI custom jobs. `target` is the target; what renders is pure, `client` makes the calls."""
