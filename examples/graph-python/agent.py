"""A graph that answers messages. Replace `answer` by a call of a model."""

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt


def answer(state: MessagesState) -> dict:
    text = state["messages"][-1].text
    if not text.startswith("send "):
        return {"messages": [AIMessage(f"You said: {text}")]}
    # The run stops here until somebody resumes it with a decision.
    decision = interrupt({"question": f'Send "{text[5:]}"?'})
    return {"messages": [AIMessage("Sent." if decision == "yes" else "Not sent.")]}


builder = StateGraph(MessagesState)
builder.add_node("answer", answer)
builder.add_edge(START, "answer")
builder.add_edge("answer", END)
graph = builder.compile()
