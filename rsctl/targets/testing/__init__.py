"""For who writes a target: the conformance suite and a small target to start from."""
