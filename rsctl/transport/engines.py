"""Selects the engine: the C++ core if it is installed, otherwise the Python engine."""

from __future__ import annotations

from rsctl.transport.engine_interface import (
    ClientEngine,
    EpochGroup,
    Membership,
    ReducerEngine,
    Sockets,
)


def reducer_engine(group: EpochGroup, core: bool) -> ReducerEngine:
    """A running reducer for one epoch; `core` false forces the Python engine."""
    from rsctl.transport import native

    if core and native.library() is not None:
        return native.CoreReducer(group)
    from rsctl.transport.python_reducer import PythonReducer

    return PythonReducer(group)


def client_engine(membership: Membership, sockets: Sockets, core: bool) -> ClientEngine:
    """A running client on these opened connections; `core` false forces the Python engine."""
    from rsctl.transport import native

    if core and native.library() is not None:
        return native.CoreClient(membership, sockets)
    from rsctl.transport.python_client import PythonClient

    return PythonClient(membership, sockets)


def engine_name(core: bool) -> str:
    """`core` or `python`: the engine that a call with this choice takes."""
    from rsctl.transport import native

    return "core" if core and native.library() is not None else "python"
