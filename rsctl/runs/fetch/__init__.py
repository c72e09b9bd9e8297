"""Brings home what a run has left: outputs, checkpoints, logs and artifacts, into one folder."""
