"""Notices that the processes of a node make no progress, and reports what each of them does.

A thread of `rsctl-launch` samples counters, asks the ranks (`transport/pytorch/inspection.py`) and
prints what it finds as structured lines; the reader of the log judges the job by the lines of all
nodes (`rsctl.runs.stalls`).
"""
