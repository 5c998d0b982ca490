"""Loads the graphs of the configuration file."""

import importlib
import importlib.util
import inspect
import os
import sys
from contextlib import asynccontextmanager
from typing import Any

from langgraph.graph import StateGraph
from langgraph.pregel import Pregel


class LoadError(Exception):
    pass


def import_file(of: str, path: str, folder: str) -> Any:
    try:
        if "/" not in path and not path.endswith(".py"):
            return importlib.import_module(path)
        file = os.path.join(folder, path)
        stem = os.path.splitext(os.path.basename(file))[0]
        # A module that is there already keeps its name.
        name = stem if stem not in sys.modules and stem.isidentifier() else f"graph_{abs(hash(file))}"
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    except Exception as error:
        raise LoadError(f"{of}: {path} could not be loaded: {error}") from error


def _to_graph(graph_id: str, value: Any) -> Pregel:
    graph = value.compile() if isinstance(value, StateGraph) else value
    if not isinstance(graph, Pregel):
        raise LoadError(f"Graph `{graph_id}`: the name is neither a graph nor a function that returns one.")
    return graph


class LoadedGraph:
    """A graph, or a function of the configuration that returns one, also as a context manager."""

    def __init__(self, graph_id: str, value: Any) -> None:
        self.graph_id = graph_id
        self._value = value
        is_factory = callable(value) and not isinstance(value, (Pregel, StateGraph))
        self._graph = None if is_factory else _to_graph(graph_id, value)

    @asynccontextmanager
    async def open(self, config: dict, checkpointer: Any, store: Any):
        if self._graph is not None:
            yield _equip(self._graph, checkpointer, store)
            return
        takes = len(inspect.signature(self._value).parameters)
        made = self._value(*[config][:takes])
        if inspect.isawaitable(made):
            made = await made
        if hasattr(made, "__aenter__"):
            async with made as value:
                yield _equip(_to_graph(self.graph_id, value), checkpointer, store)
        elif hasattr(made, "__enter__"):
            with made as value:
                yield _equip(_to_graph(self.graph_id, value), checkpointer, store)
        else:
            yield _equip(_to_graph(self.graph_id, made), checkpointer, store)


def _equip(graph: Pregel, checkpointer: Any, store: Any) -> Pregel:
    return graph.copy(update={"checkpointer": checkpointer, "store": store})


def load_graphs(specs: list[dict], folder: str) -> dict[str, LoadedGraph]:
    """All faults are reported at once."""
    loaded: dict[str, LoadedGraph] = {}
    faults: list[str] = []
    for spec in specs:
        graph_id, path, name = spec["id"], spec["path"], spec["name"]
        try:
            module = import_file(f"Graph `{graph_id}`", path, folder)
            if not hasattr(module, name):
                raise LoadError(f"Graph `{graph_id}`: {path} has no `{name}`.")
            loaded[graph_id] = LoadedGraph(graph_id, getattr(module, name))
        except LoadError as error:
            faults.append(str(error))
    if faults:
        raise LoadError("\n".join(faults))
    return loaded


def load_embed(spec: dict, folder: str) -> Any:
    """The function of the application that makes embeddings, or an object of the library that does."""
    value = getattr(import_file("`store.index.embed`", spec["path"], folder), spec["name"], None)
    if hasattr(value, "aembed_documents"):
        return value.aembed_documents
    if callable(value):
        return value
    raise LoadError(f"`store.index.embed`: `{spec['name']}` of {spec['path']} is neither a function nor `Embeddings`.")
