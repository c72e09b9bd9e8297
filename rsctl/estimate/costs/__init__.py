"""The possible costs of plans, the costs of runs, and their limit.

Includes machines and accelerators by the hour. Excludes disks, storage and traffic.
"""
