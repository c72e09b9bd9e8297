"""Emulators of the clouds on loopback, for rehearsals and for tests.

They speak the vendors' wire formats over real HTTP, so that unmodified clients talk to them, refuse
what the documentation says is refused, and really run the jobs that they are sent. They are made
from the documentation and are not the clouds: what the documentation leaves open may be otherwise
there.

An emulator runs what it is sent, as the user who started it. So it listens on loopback only, and
takes only calls with credentials that it has made itself.
"""

NOTICE = "rsctl emulator (made from the documentation; not the cloud)"
"""The value of every answer's header `Server`."""
