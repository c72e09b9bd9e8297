"""The checks of a job's nodes before its ranks start: `checks:` of the job file."""
