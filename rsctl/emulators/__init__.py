"""The clouds on loopback, to rehearse with and to test against.

They speak the vendors' wire formats over real HTTP, so that unmodified clients talk to them, refuse
what the documentation says is refused, and really run the job that they are
sent. They are made from the documentation and are not the clouds: what the documentation leaves
open may be otherwise there.

An emulator runs what it is sent, as the user who started it. So it listens on loopback only, and
takes only calls with credentials that it has made itself.
"""

NOTICE = "rsctl emulator (made from the documentation; not the cloud)"
"""What every answer says of itself, in its header `Server`."""
