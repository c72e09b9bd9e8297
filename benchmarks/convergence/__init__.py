"""Time to the same validation loss, by how gradients travel. Needs root and torch.

`python -m benchmarks.convergence` runs real trainings on a star of network namespaces whose links
are shaped in both directions.
"""
