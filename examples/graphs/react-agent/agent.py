"""A ReAct agent: the model calls tools until it can answer."""

import os

from langchain_core.messages import SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


@tool
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


TOOLS = [multiply, add]
SYSTEM = SystemMessage("You calculate with tools, and answer in one sentence.")
model = ChatOpenAI(model=os.environ.get("MODEL", "gpt-4.1-mini")).bind_tools(TOOLS)


async def think(state: MessagesState) -> dict:
    return {"messages": [await model.ainvoke([SYSTEM, *state["messages"]])]}


builder = StateGraph(MessagesState)
builder.add_node("think", think)
builder.add_node("tools", ToolNode(TOOLS))
builder.add_edge(START, "think")
builder.add_conditional_edges("think", tools_condition)
builder.add_edge("tools", "think")
graph = builder.compile()
