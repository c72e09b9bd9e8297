"""Trackers: where a run's parameters, metrics and result go beside the store."""
