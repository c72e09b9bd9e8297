"""An example target for rsctl: a queue of jobs in a folder of this machine."""
