"""One run of a graph as events of the wire."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from typing import Any
from uuid import UUID

from langchain_core.messages import BaseMessage, BaseMessageChunk, message_chunk_to_message

from .wire import to_debug_checkpoint, to_task

Emit = Callable[[str, Any], None]


def _library_modes(modes: list[str]) -> list[str]:
    """Values are always asked for: the last are the output of the run."""
    wanted = [mode for mode in modes if mode not in ("events", "messages-tuple")]
    if "messages-tuple" in modes:
        wanted.append("messages")
    return list(dict.fromkeys([*wanted, "values"]))


def run_config(run: dict) -> dict:
    given = run["kwargs"]["config"]
    config = {
        "configurable": given.get("configurable") or {},
        "metadata": (given.get("metadata") or {})
        | {
            "run_attempt": run["attempt"],
            "langgraph_host": "self-hosted",
            "langgraph_api_url": os.environ.get("LANGGRAPH_API_URL"),
        },
        "run_id": UUID(run["run_id"]),
    }
    for name in ("tags", "recursion_limit", "max_concurrency", "run_name"):
        if given.get(name) is not None:
            config[name] = given[name]
    return config


def tracing(configurable: dict):
    """A second project of the caller gets the trace too."""
    project = configurable.get("langsmith_project")
    if not project:
        return nullcontext()
    from langsmith import tracing_context

    example = {"reference_example_id": configurable.get("langsmith_example_id")}
    own = os.environ.get("LANGSMITH_PROJECT") or os.environ.get("LANGCHAIN_PROJECT") or "default"
    return tracing_context(replicas=[(project, example), (own, None)])


async def _read(graph: Any, given: Any, config: dict, options: dict, has_events: bool) -> AsyncIterator[tuple]:
    """Chunks of the graph as (namespace, mode, data), with the event of the library for the mode `events`."""

    def split(chunk: tuple) -> tuple:
        return chunk if options["subgraphs"] else ((), *chunk)

    if not has_events:
        async for chunk in graph.astream(given, config, **options):
            yield split(chunk), None
        return
    async for event in graph.astream_events(given, config, version="v2", **options):
        if "langsmith:hidden" in (event.get("tags") or ()):
            continue
        is_chunk = event["event"] == "on_chain_stream" and str(event["run_id"]) == str(config["run_id"])
        chunk = event["data"].get("chunk") if is_chunk else None
        yield (split(chunk) if isinstance(chunk, tuple) else None), event


def _convert(mode: str, data: Any) -> Any:
    if mode == "checkpoints":
        return to_debug_checkpoint(data)
    if mode == "tasks":
        return to_task(data)
    if mode == "debug":
        convert = to_debug_checkpoint if data["type"] == "checkpoint" else to_task
        return data | {"payload": convert(data["payload"])}
    return data


class GrowingMessages:
    """The older mode `messages`: each message as it grows, and once when it is complete."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._partial: dict[str, Any] = {}
        self._complete: set[str] = set()

    def grow(self, data: tuple) -> None:
        message, metadata = data
        if not message.id or message.id in self._complete:
            return
        if not isinstance(message, BaseMessageChunk):
            self.complete([message])
            return
        before = self._partial.get(message.id)
        if before is None:
            self._emit("messages/metadata", {message.id: {"metadata": metadata}})
        whole = message if before is None else before + message
        self._partial[message.id] = whole
        self._emit("messages/partial", [message_chunk_to_message(whole)])

    def complete(self, messages: list) -> None:
        fresh = [
            message
            for message in messages
            if isinstance(message, BaseMessage) and message.id and message.id not in self._complete
        ]
        if fresh:
            self._complete.update(message.id for message in fresh)
            self._emit("messages/complete", fresh)


def _messages_in(values: Any) -> list:
    messages = values.get("messages") if isinstance(values, dict) else getattr(values, "messages", None)
    return messages if isinstance(messages, list) else []


async def stream_run(graph: Any, run: dict, given: Any, emit: Emit, on_values: Callable[[Any], None]) -> None:
    kwargs = run["kwargs"]
    modes = kwargs["stream_mode"]
    growing = GrowingMessages(emit) if "messages" in modes else None
    options = {"stream_mode": _library_modes(modes), "subgraphs": bool(kwargs.get("subgraphs"))}
    for name in ("interrupt_before", "interrupt_after", "durability", "context"):
        if kwargs.get(name) is not None:
            options[name] = kwargs[name]
    config = run_config(run)
    has_events = "events" in modes
    emit("metadata", {"run_id": run["run_id"], "attempt": run["attempt"]})
    with tracing(config["configurable"]):
        async for chunk, event in _read(graph, given, config, options, has_events):
            if event is not None:
                emit("events", event)
            if chunk is None:
                continue
            namespace, mode, data = chunk
            if mode == "values":
                if not namespace:
                    on_values(data)
                if growing:
                    growing.complete(_messages_in(data))
            if mode == "messages" and growing:
                growing.grow(data)
            if "messages-tuple" in modes if mode == "messages" else mode in modes:
                emit("|".join((mode, *namespace)), _convert(mode, data))
    if kwargs.get("feedback_keys"):
        emit("feedback", _feedback_urls(run))


def _feedback_urls(run: dict) -> dict:
    from langsmith import Client

    client = Client()
    keys = run["kwargs"]["feedback_keys"]
    return {key: client.create_presigned_feedback_token(run["run_id"], key).url for key in keys}
