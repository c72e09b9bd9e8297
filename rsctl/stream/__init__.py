"""What comes back from a job: log lines, states, metrics; merged, read and shown."""
