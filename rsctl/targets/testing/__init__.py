"""For authors of targets: the conformance suite and a small target to start from."""
