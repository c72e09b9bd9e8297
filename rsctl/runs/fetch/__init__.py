"""Downloads the results of a run: outputs, checkpoints, logs and artifacts, into one folder."""
