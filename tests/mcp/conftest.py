"""Conversations with `rsctl mcp` in a process of its own, by the protocol's official client."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import anyio
import pytest

from tests.cli.conftest import Cli
from tests.cli.conftest import rsctl as rsctl
from tests.cli.conftest import runs_end_with_the_test as runs_end_with_the_test
from tests.kit.deferred import Deferred

mcp = Deferred("mcp")
types = Deferred("mcp.types")


class Answer(NamedTuple):
    """What a tool has answered: the structured content, and the text, of an error or the same."""

    data: Any
    text: str
    is_error: bool


class Agent:
    """A client in a conversation."""

    def __init__(self, session: Any) -> None:
        self.session = session

    async def __call__(self, tool: str, **arguments: Any) -> Answer:
        result = await self.session.call_tool(tool, arguments)
        assert isinstance(result, types.CallToolResult)
        [block] = result.content
        assert isinstance(block, types.TextContent)
        if not result.is_error:
            assert json.loads(block.text) == result.structured_content
        return Answer(result.structured_content, block.text, result.is_error)

    async def tools(self) -> list[Any]:
        return (await self.session.list_tools()).tools


Talk = Callable[[Agent], Awaitable[None]]
Converse = Callable[..., None]


@pytest.fixture
def converse(rsctl: Cli) -> Converse:
    """Has a conversation with a server in the current folder that has these options."""

    def start(talk: Talk, *options: str) -> None:
        command, *words = rsctl.argv("mcp", *options)
        server = mcp.StdioServerParameters(command=command, args=words, env=dict(os.environ))

        async def run() -> None:
            with anyio.fail_after(120):
                async with (
                    mcp.stdio_client(server, errlog=sys.__stderr__) as streams,
                    mcp.ClientSession(*streams) as session,
                ):
                    await session.initialize()
                    await talk(Agent(session))

        anyio.run(run)

    return start
