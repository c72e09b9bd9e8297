"""What botocore reads and makes of the services, once a process instead of once for each client."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

_parsed: dict[str | None, dict[Any, Any]] = {}
_models: dict[int, Any] = {}


def share_botocore_data() -> None:
    """Let all sessions of this process have one memory of parsed files, for each search path, and
    all clients of a service its model and methods.

    A session parses several MB of JSON for its first client, and a client gets a method for each
    of a service's 400 operations, which is most of what a short test costs. Does nothing before
    botocore is imported, and nothing a second time.
    """
    module: Any = sys.modules.get("botocore.session")
    if module is None or module.create_loader is _create_loader:
        return
    from botocore import client, hooks

    module.create_loader = _create_loader
    shared: Any = client
    shared.ServiceModel = _model_by(client.ServiceModel)
    shared.ClientCreator._create_methods = _methods_by(client.ClientCreator._create_methods)
    shared = hooks
    accepts = lru_cache(1000)(hooks.accepts_kwargs)
    shared.accepts_kwargs = lambda handler: accepts(getattr(handler, "__func__", handler))
    names: dict[str, str] = {}
    shared.EventAliaser._alias_name_cache = property(lambda _: names, lambda *_: None)


def _create_loader(search_path: str | None = None) -> Any:
    from botocore.loaders import create_loader

    loader: Any = create_loader(search_path)
    loader._cache = _parsed.setdefault(search_path, {})
    return loader


def _model_by(make: Callable[..., Any]) -> Callable[..., Any]:
    def model(description: Any, service_name: str) -> Any:
        # What has been parsed stays in memory, so that no other description gets its id.
        if id(description) not in _models:
            _models[id(description)] = make(description, service_name=service_name)
        return _models[id(description)]

    return model


def _methods_by(make: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    made: dict[Any, dict[str, Any]] = {}

    def methods(creator: Any, model: Any) -> dict[str, Any]:
        if model not in made:
            made[model] = make(creator, model)
        return dict(made[model])  # boto3 adds methods to it

    return methods
