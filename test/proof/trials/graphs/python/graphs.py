"""Graphs of the trial: an agent with a model and an approval, and graphs that are slow, fail or do nothing."""

import asyncio
from typing import Annotated, TypedDict

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.graph import MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.store.base import BaseStore
from langgraph.types import interrupt


class State(TypedDict, total=False):
    messages: Annotated[list, add_messages]
    steps: int


async def answer(state: MessagesState, *, store: BaseStore) -> dict:
    get_stream_writer()({"progress": "thinking"})
    await store.aput(("seen",), "last", {"count": len(state["messages"])})
    model = FakeListChatModel(responses=[f"You said: {state['messages'][-1].content}"])
    return {"messages": [await model.ainvoke(state["messages"])]}


def approve(state: MessagesState) -> dict:
    text = [message.content for message in state["messages"] if isinstance(message, HumanMessage)][-1]
    if not text.startswith("delete"):
        return {}
    decision = interrupt({"question": f"May I {text}?"})
    return {"messages": [AIMessage(f"Decision: {decision}")]}


agent = (
    StateGraph(MessagesState)
    .add_node("answer", answer)
    .add_node("approve", approve)
    .add_edge("__start__", "answer")
    .add_edge("answer", "approve")
    .add_edge("approve", "__end__")
    .compile()
)


async def count(state: State, config: RunnableConfig) -> dict:
    """Counts to ten, a step in 600 ms, unless the configuration says other times."""
    settings = config["configurable"]
    writer = get_stream_writer()
    for step in range(1, settings.get("steps", 10) + 1):
        await asyncio.sleep(settings.get("pause", 600) / 1000)
        writer({"step": step})
    return {"messages": [AIMessage("counted")], "steps": state.get("steps", 0) + 1}


async def first(state: State) -> dict:
    return {"steps": 0}


slow = (
    StateGraph(State)
    .add_node("first", first)
    .add_node("count", count)
    .add_edge("__start__", "first")
    .add_edge("first", "count")
    .add_edge("count", "__end__")
    .compile()
)


def fail(state: State) -> dict:
    raise TypeError("this graph fails")


failing = StateGraph(State).add_node("fail", fail).add_edge("__start__", "fail").compile()


class Small(TypedDict, total=False):
    value: int


trivial = (
    StateGraph(Small)
    .add_node("add", lambda state: {"value": state.get("value", 0) + 1})
    .add_edge("__start__", "add")
    .compile()
)

class Words(TypedDict):
    text: str


async def find(state: Words, config: RunnableConfig, *, store: BaseStore) -> dict:
    """Finds the note of its user that is nearest to a text."""
    user = config["configurable"]["langgraph_auth_user"]
    [found] = await store.asearch((user["identity"], "notes"), query=state["text"], limit=1)
    return {"text": found.key}


finder = StateGraph(Words).add_node("find", find).add_edge("__start__", "find").compile()

child = (
    StateGraph(Small)
    .add_node("double", lambda state: {"value": state.get("value", 0) * 2})
    .add_edge("__start__", "double")
    .compile()
)


def parent(config: RunnableConfig) -> StateGraph:
    """A function of its configuration."""
    return StateGraph(Small).add_node("child", child).add_edge("__start__", "child").add_edge("child", "__end__")
