"""One run of a graph as events of the newer streaming protocol, which the library makes itself."""

import inspect
import time
from collections.abc import Callable, Iterable
from typing import Any

from .streaming import Emit, run_config, tracing


async def stream_protocol(graph: Any, run: dict, given: Any, emit: Emit, on_values: Callable[[Any], None]) -> None:
    config = run_config(run)
    options = {"context": run["kwargs"]["context"]} if run["kwargs"].get("context") is not None else {}
    asked: set[str] = set()

    def send(method: str, namespace: Iterable[str], data: Any, node: str | None = None, timestamp: int = 0) -> None:
        about = {"node": node} if node else {}
        at = timestamp or int(time.time() * 1000)
        emit("protocol", {"method": method, "namespace": list(namespace), "timestamp": at, **about, "data": data})

    def ask(namespace: Iterable[str], interrupts: Iterable[Any]) -> None:
        for one in interrupts:
            if one.id not in asked:
                asked.add(one.id)
                send("input.requested", namespace, {"interrupt_id": one.id, "payload": one.value})

    send("lifecycle", (), {"event": "running", "graph_name": run["graph_id"]})
    with tracing(config["configurable"]):
        stream = graph.astream_events(given, config, version="v3", **options)
        async with await stream if inspect.isawaitable(stream) else stream as events:
            async for event in events:
                method, params = event["method"], event["params"]
                namespace, data, timestamp = params["namespace"], params["data"], params["timestamp"]
                # The server tells of the end of the root, when it has written it.
                if method == "lifecycle" and not namespace:
                    continue
                if method == "values":
                    ask(namespace, params.get("interrupts") or ())
                    if isinstance(data, dict) and "__interrupt__" in data:
                        data = {name: value for name, value in data.items() if name != "__interrupt__"}
                    if not namespace:
                        on_values(data)
                    send(method, namespace, data, timestamp=timestamp)
                elif method == "messages":
                    # The event of the message, with what the library knows of its model.
                    content, metadata = data if isinstance(data, tuple) else (data, {})
                    send(method, namespace, content, metadata.get("langgraph_node"), timestamp)
                else:
                    send(method, namespace, data, params.get("node"), timestamp)
