"""The variables by which a job sets the watch for stalls."""

STALL_SECONDS = "RSCTL_STALL_SECONDS"
"""The variable with limits.stall in seconds; 0 turns the watch off."""
INSPECT = "RSCTL_INSPECT"
"""The variable by which ranks are not asked what they do, where it is `off`."""

DEFAULT_STALL_SECONDS = 600.0
