"""Slurm: a job as one batch script, submitted by commands, by ssh, or by slurmrestd."""
