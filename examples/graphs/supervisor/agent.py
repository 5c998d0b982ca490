"""A supervisor that chooses which of two agents works next, until the work is done."""

import os
from typing import Literal

from langchain_core.messages import AIMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

model = ChatOpenAI(model=os.environ.get("MODEL", "gpt-4.1-mini"))

AGENTS = {
    "researcher": "You are a researcher. List the facts that the task needs.",
    "writer": "You are a writer. Write the text of the task from the facts above.",
}
SUPERVISOR = SystemMessage(
    f"You are a supervisor of {', '.join(AGENTS)}. Answer with one word: who works next, or FINISH."
)


async def supervisor(state: MessagesState) -> Command[Literal["researcher", "writer", "__end__"]]:
    answer = await model.ainvoke([SUPERVISOR, *state["messages"]])
    chosen = answer.text.strip().lower()
    return Command(goto=chosen if chosen in AGENTS else END)


def make_agent(name: str):
    async def work(state: MessagesState) -> dict:
        answer = await model.ainvoke([SystemMessage(AGENTS[name]), *state["messages"]])
        return {"messages": [AIMessage(answer.text, name=name)]}

    return work


builder = StateGraph(MessagesState)
builder.add_node("supervisor", supervisor)
for name in AGENTS:
    builder.add_node(name, make_agent(name))
    builder.add_edge(name, "supervisor")
builder.add_edge(START, "supervisor")
graph = builder.compile()
