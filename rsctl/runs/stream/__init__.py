"""The events of a run: log lines, states and metrics; stored, merged, read and formatted."""
