"""Common code of targets in a cloud: submit once, collect the log, store the state of a job."""
