"""Emulators of the clouds on loopback, for rehearsals and for tests.

They speak the vendors' wire formats over real HTTP, so that unmodified clients talk to them, refuse
the requests that the clouds refuse by their documentation, and really run the jobs. They are made
from the documentation and are not the clouds: a cloud may behave differently where its
documentation is silent.

An emulator runs the programs of its jobs as the user who started it. So it listens on loopback
only, and accepts only credentials that it has made itself.
"""

NOTICE = "rsctl emulator (made from the documentation; not the cloud)"
"""The value of every answer's header `Server`."""
