"""The job spec: its types, how it is read from YAML, and every mistake that can be seen in it."""
