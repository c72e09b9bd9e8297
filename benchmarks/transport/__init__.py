"""How fast the reduction transport is on shaped networks of namespaces, next to gloo's ring.

python -m benchmarks.transport [CASE...] [--runs N] [--engine core|python] [--tls]   (as root)
"""
