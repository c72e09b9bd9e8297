"""Launcher `mpi`: Open MPI's mpirun on the chief, with rsctl's own starter in place of ssh."""
