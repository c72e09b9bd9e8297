"""Target `sagemaker`: training jobs of Amazon SageMaker."""
