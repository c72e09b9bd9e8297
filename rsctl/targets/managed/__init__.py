"""What targets in a cloud do alike: submit once, collect the log, keep what is known of a job."""
