"""Cloud Build and CodeBuild on loopback: builds that really run, with this machine's docker."""
