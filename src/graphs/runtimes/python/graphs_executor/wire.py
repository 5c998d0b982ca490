"""Values of graphs in the words of the wire."""

import base64
import json
import uuid
from collections import deque
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any

import orjson

OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def convert(value: Any) -> Any:
    """Values that JSON does not have. Messages are pydantic models."""
    if hasattr(value, "model_dump") and callable(value.model_dump) and not isinstance(value, type):
        return value.model_dump()
    if isinstance(value, BaseException):
        return to_error(value)
    if isinstance(value, (set, frozenset, deque)):
        return list(value)
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (Decimal, PurePath, uuid.UUID)):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if hasattr(value, "dict") and callable(value.dict) and not isinstance(value, type):
        return value.dict()
    return repr(value)


def to_json(value: Any) -> str:
    try:
        return orjson.dumps(value, default=convert, option=OPTIONS).decode()
    except TypeError:
        # Integers beyond 64 bits, deep nesting, and text with lone surrogates.
        return json.dumps(value, default=convert)


def to_error(error: BaseException) -> dict:
    return {"error": type(error).__name__, "message": str(error)}


def to_checkpoint(config: dict | None) -> dict | None:
    configurable = (config or {}).get("configurable") or {}
    if not configurable.get("checkpoint_id"):
        return None
    return to_place(configurable)


def to_place(configurable: dict) -> dict:
    return {
        "thread_id": configurable.get("thread_id"),
        "checkpoint_id": configurable.get("checkpoint_id"),
        "checkpoint_ns": configurable.get("checkpoint_ns") or "",
        "checkpoint_map": configurable.get("checkpoint_map"),
    }


def without_internals(config: dict | None) -> dict | None:
    if not config or not config.get("configurable"):
        return config
    configurable = {k: v for k, v in config["configurable"].items() if not k.startswith("__")}
    return {k: v for k, v in config.items() if k != "callbacks"} | {"configurable": configurable}


def to_task(task: Any) -> Any:
    state = task.get("state") if isinstance(task, dict) else None
    if not isinstance(state, dict) or "configurable" not in state:
        return task
    return {k: v for k, v in task.items() if k != "state"} | {"checkpoint": to_place(state["configurable"])}


def to_debug_checkpoint(payload: dict) -> dict:
    config, parent = payload.get("config"), payload.get("parent_config")
    return payload | {
        "config": without_internals(config),
        "parent_config": without_internals(parent),
        "checkpoint": to_checkpoint(config),
        "parent_checkpoint": to_checkpoint(parent),
        "tasks": [to_task(task) for task in payload.get("tasks") or []],
    }


def to_state(state: Any) -> dict:
    return {
        "values": state.values or {},
        "next": list(state.next),
        "tasks": [
            {
                "id": task.id,
                "name": task.name,
                "path": task.path,
                "error": None if task.error is None else str(task.error),
                "interrupts": list(task.interrupts),
                "checkpoint": to_place(task.state["configurable"]) if isinstance(task.state, dict) else None,
                "state": to_state(task.state) if hasattr(task.state, "next") else None,
                "result": task.result,
            }
            for task in state.tasks
        ],
        "interrupts": [one for task in state.tasks for one in task.interrupts],
        "metadata": state.metadata or {},
        "created_at": state.created_at,
        "checkpoint": to_checkpoint(state.config),
        "parent_checkpoint": to_checkpoint(state.parent_config),
    }


def to_summary(state: Any) -> dict:
    """The parts of a state that the server keeps in the row of the thread."""
    return {
        "values": to_json(state.values or {}),
        "next": list(state.next),
        "interrupts": {task.id: list(task.interrupts) for task in state.tasks if task.interrupts},
    }
