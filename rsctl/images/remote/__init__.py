"""Image builds by Cloud Build and CodeBuild."""
