"""Answers of the executor: runs, states and descriptions of graphs."""

import asyncio
import inspect
import sys
import traceback
from contextlib import AsyncExitStack
from typing import Any

from langgraph.types import Command, Send, StateUpdate

from .auth import authenticate, authorize, load_auth
from .loading import load_embed, load_graphs
from .pipe import Pipe
from .saver import make_serde, open_saver, prepare_tables
from .schemas import describe_schemas
from .store import ServerStore
from .protocol import stream_protocol
from .streaming import stream_run
from .wire import to_error, to_json, to_place, to_state, to_summary


LOST = to_json({"status": "lost", "error": None, "output": None, "state": None})


def to_command(given: dict) -> Command:
    goto = given.get("goto")
    targets = [] if goto is None else goto if isinstance(goto, list) else [goto]
    update = given.get("update")
    return Command(
        goto=[one if isinstance(one, str) else Send(one["node"], one.get("input")) for one in targets],
        update=[tuple(pair) for pair in update] if isinstance(update, list) else update,
        resume=given.get("resume"),
    )


async def prepare(message: dict, pipe: Pipe) -> "Answers":
    graphs = load_graphs(message["graphs"], message["folder"])
    embed = load_embed(message["embed"], message["folder"]) if message.get("embed") else None
    auth = load_auth(message["auth"], message["folder"]) if message.get("auth") else None
    saver = await open_saver(message["database"], pipe, make_serde(message.get("serde")))
    return Answers(graphs, saver, pipe, message["database"], auth, embed)


class Answers:
    def __init__(self, graphs: dict, saver: Any, pipe: Pipe, database: str, auth: Any, embed: Any) -> None:
        self._graphs = graphs
        self._database = database
        self._auth = auth
        self._embed = embed
        self._saver = saver
        self._store = ServerStore(pipe)
        self._pipe = pipe
        self._running: dict[str, asyncio.Task] = {}
        self._cancelled: set[str] = set()

    async def answer(self, message: dict) -> str:
        return await getattr(self, f"_answer_{message['question']}")(message)

    def cancel(self, run_id: str) -> None:
        task = self._running.get(run_id)
        if task is not None:
            self._cancelled.add(run_id)
            task.cancel()

    def _open(self, graph_id: str, config: dict):
        return self._graphs[graph_id].open(config, self._saver, self._store)

    async def _answer_run(self, message: dict) -> str:
        run = message["run"]
        try:
            result = await self._execute(run)
        except Exception:
            # The state after the run could not be read.
            traceback.print_exc()
            return LOST
        has_failed = self._saver.take_failure(run["run_id"])
        return LOST if has_failed and result["status"] == "error" else to_json(result)

    async def _execute(self, run: dict) -> dict:
        run_id, kwargs = run["run_id"], run["kwargs"]
        output: list[Any] = []

        def emit(event: str, data: Any) -> None:
            self._pipe.emit(run_id, event, to_json(data))

        async def execute() -> None:
            async with self._open(run["graph_id"], kwargs["config"]) as graph:
                is_continued = run["attempt"] > 1 and await self._saver.has_checkpoint_of(run)
                given = kwargs.get("input")
                if is_continued:
                    given = None
                elif kwargs.get("command"):
                    given = to_command(kwargs["command"])
                stream = stream_protocol if kwargs.get("protocol") else stream_run
                await stream(graph, run, given, emit, lambda values: output.__setitem__(slice(None), [values]))

        status, failure = "success", None
        task = asyncio.create_task(execute())
        self._running[run_id] = task
        try:
            await task
        except asyncio.CancelledError:
            status = "interrupted"
        except Exception as error:
            status, failure = ("interrupted", None) if run_id in self._cancelled else ("error", to_error(error))
            if failure:
                print(f"run failed run={run_id} graph={run['graph_id']}", file=sys.stderr)
                traceback.print_exc()
        finally:
            self._running.pop(run_id, None)
            self._cancelled.discard(run_id)
        state = await self._summarize(run["graph_id"], run["thread_id"], kwargs["config"])
        interrupts = [one for ones in (state["interrupts"] if state else {}).values() for one in ones]
        last = output[0] if output else None
        if interrupts and isinstance(last, dict):
            last = last | {"__interrupt__": interrupts}
        return {"status": status, "error": failure, "output": None if last is None else to_json(last), "state": state}

    async def _summarize(self, graph_id: str, thread_id: str, config: dict) -> dict | None:
        async with AsyncExitStack() as stack:
            try:
                graph = await stack.enter_async_context(self._open(graph_id, config))
            except Exception:
                # A factory that failed the run fails here too. The thread keeps its values.
                traceback.print_exc()
                return None
            return to_summary(await graph.aget_state({"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}))

    async def _answer_setup(self, _: dict) -> str:
        await prepare_tables(self._database)
        return "null"

    async def _answer_state(self, message: dict) -> str:
        async with self._open(message["graph_id"], message["config"]) as graph:
            state = await graph.aget_state(message["config"], subgraphs=message["subgraphs"])
            return to_json(to_state(state))

    async def _answer_summary(self, message: dict) -> str:
        async with self._open(message["graph_id"], message["config"]) as graph:
            return to_json(to_summary(await graph.aget_state(message["config"])))

    async def _answer_history(self, message: dict) -> str:
        async with self._open(message["graph_id"], message["config"]) as graph:
            history = graph.aget_state_history(
                message["config"], filter=message["filter"], before=message["before"], limit=message["limit"]
            )
            return to_json([to_state(state) async for state in history])

    async def _answer_update(self, message: dict) -> str:
        config, supersteps = message["config"], message["supersteps"]
        async with self._open(message["graph_id"], config) as graph:
            written = await graph.abulk_update_state(
                config,
                [
                    [
                        StateUpdate(
                            to_command(one["command"]) if one.get("command") else one.get("values"), one.get("as_node")
                        )
                        for one in superstep["updates"]
                    ]
                    for superstep in supersteps
                ],
            )
            place = {"configurable": {"thread_id": config["configurable"]["thread_id"], "checkpoint_ns": ""}}
            state = to_summary(await graph.aget_state(place))
        return to_json({"checkpoint": to_place(written["configurable"]), "state": state})

    async def _answer_graph(self, message: dict) -> str:
        async with self._open(message["graph_id"], message["config"]) as graph:
            drawable = await graph.aget_graph(message["config"], xray=message["xray"])
            return to_json(drawable.to_json())

    async def _answer_schemas(self, message: dict) -> str:
        async with self._open(message["graph_id"], message["config"]) as graph:
            return to_json({"graph_id": message["graph_id"]} | describe_schemas(graph))

    async def _answer_subgraphs(self, message: dict) -> str:
        async with self._open(message["graph_id"], message["config"]) as graph:
            found = graph.aget_subgraphs(namespace=message["namespace"], recurse=message["recurse"])
            return to_json({name: {"graph_id": name} | describe_schemas(one) async for name, one in found})

    async def _answer_embed(self, message: dict) -> str:
        made = self._embed(message["texts"])
        return to_json(await made if inspect.isawaitable(made) else made)

    async def _answer_authenticate(self, message: dict) -> str:
        return to_json(await authenticate(self._auth, message))

    async def _answer_authorize(self, message: dict) -> str:
        return to_json(await authorize(self._auth, message))

    async def _answer_prune(self, message: dict) -> str:
        await self._saver.aprune(message["thread_ids"], strategy="keep_latest")
        return "null"
