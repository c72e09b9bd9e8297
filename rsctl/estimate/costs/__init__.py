"""What plans can cost and what runs have cost, and the limit of it.

What counts are machines and accelerators by the hour. Disks, storage and traffic do not.
"""
