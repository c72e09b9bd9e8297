"""One declarative job spec to multi-node GPU training on Vertex AI, SageMaker, Slurm or locally."""

__version__ = "0.1.0"
