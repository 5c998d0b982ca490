"""JSON Schemas of a graph."""

from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter


def _attempt(make: Callable[[], Any]) -> Any:
    """A state may have types without a JSON Schema, such as a class of the application."""
    try:
        return make()
    except Exception:
        return None


def _state_schema(graph: Any) -> dict | None:
    schema = getattr(getattr(graph, "builder", None), "state_schema", None)
    return _attempt(lambda: TypeAdapter(schema).json_schema()) if schema is not None else None


def describe_schemas(graph: Any) -> dict:
    context = _attempt(graph.get_context_jsonschema)
    received = _attempt(graph.get_input_jsonschema)
    return {
        "input_schema": received,
        "output_schema": _attempt(graph.get_output_jsonschema),
        "state_schema": _state_schema(graph) or received,
        "config_schema": context or {"type": "object", "properties": {}},
        "context_schema": context,
    }
