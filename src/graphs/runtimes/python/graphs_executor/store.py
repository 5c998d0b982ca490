"""The store of graphs is the server's, which is asked over the pipe."""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from langgraph.store.base import BaseStore, GetOp, Item, ListNamespacesOp, Op, PutOp, SearchItem, SearchOp

from .pipe import Pipe


def _times(item: dict) -> dict:
    return {name: datetime.fromisoformat(item[name]) for name in ("created_at", "updated_at")}


def _to_item(item: dict | None) -> Item | None:
    if item is None:
        return None
    return Item(value=item["value"], key=item["key"], namespace=tuple(item["namespace"]), **_times(item))


def _to_search_item(item: dict) -> SearchItem:
    place = {"namespace": tuple(item["namespace"]), "key": item["key"], "value": item["value"]}
    return SearchItem(**place, **_times(item), score=item.get("score"))


def _path(operation: ListNamespacesOp, match_type: str) -> list[str] | None:
    for condition in operation.match_conditions or ():
        if condition.match_type == match_type:
            return list(condition.path)
    return None


class ServerStore(BaseStore):
    supports_ttl = True

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._pipe.loop:
            raise RuntimeError("Use the asynchronous methods of the store in an asynchronous node, such as `aget`.")
        return asyncio.run_coroutine_threadsafe(self.abatch(ops), self._pipe.loop).result()

    async def abatch(self, ops: Iterable[Op]) -> list[Any]:
        return [await self._run(op) for op in ops]

    async def _run(self, op: Op) -> Any:
        ask = self._pipe.request
        if isinstance(op, GetOp):
            message = {"op": "get", "namespace": list(op.namespace), "key": op.key, "refresh_ttl": op.refresh_ttl}
            return _to_item(await ask(message))
        if isinstance(op, PutOp):
            message = {"op": "put", "namespace": list(op.namespace), "key": op.key, "value": op.value}
            # Without a time to live of its own, an item gets that of the file.
            if op.index is not None:
                message["index"] = op.index
            if isinstance(op.ttl, (int, float)):
                message["ttl"] = op.ttl
            await ask(message)
            return None
        if isinstance(op, SearchOp):
            message = {"op": "search", "prefix": list(op.namespace_prefix), "filter": op.filter, "limit": op.limit}
            message["query"] = op.query
            found = await ask(message | {"offset": op.offset, "refresh_ttl": op.refresh_ttl})
            return [_to_search_item(item) for item in found]
        message = {"op": "namespaces", "prefix": _path(op, "prefix"), "suffix": _path(op, "suffix")}
        found = await ask(message | {"max_depth": op.max_depth, "limit": op.limit, "offset": op.offset})
        return [tuple(namespace) for namespace in found]
