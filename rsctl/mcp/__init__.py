"""`rsctl mcp`: rsctl for AI agents, as tools of the Model Context Protocol.

`session` has the permissions of a server, `arguments` the types of the arguments, `tools` the
functions, all on `rsctl.api`. `server` speaks the protocol, over standard input and output.
"""
