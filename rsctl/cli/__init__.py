"""The command line: one file a command, imported only when it is called."""

import gc

gc.set_threshold(100_000)  # more objects than a plan makes with its imports: 6 % of its time
