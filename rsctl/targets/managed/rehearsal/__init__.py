"""Rehearsals: `submit --rehearse` runs a job for a cloud against an emulator on this machine."""
