"""Uses an example by the SDK of Python: use.py EXAMPLE URL KEY. Prints a JSON line for each step."""

import asyncio
import json
import sys

from langgraph_sdk import get_client

example, url, key = sys.argv[1:]
client = get_client(url=url, api_key=key)


def message(text: str) -> dict:
    return {"messages": [{"role": "user", "content": text}]}


def report(step: str, ok: bool, detail: object) -> None:
    print(json.dumps({"step": step, "ok": bool(ok), "detail": "" if ok else repr(detail)}))


async def react_agent() -> None:
    thread = await client.threads.create()
    chunks, values = [], {}
    modes = ["messages-tuple", "values"]
    question = message("What is 6 times 7?")
    async for part in client.runs.stream(thread["thread_id"], "agent", input=question, stream_mode=modes):
        if part.event == "messages":
            chunks.append(part.data[0]["content"])
        elif part.event == "values":
            values = part.data
    kinds = [one["type"] for one in values["messages"]]
    report("it calls a tool", kinds == ["human", "ai", "tool", "ai"], kinds)
    report("it answers", values["messages"][-1]["content"] == "The result is 42.", values)
    report("its words are streamed", len([one for one in chunks if one]) >= 4, chunks)


async def supervisor() -> None:
    values = await client.runs.wait(None, "agent", input=message("Write about cranes."))
    names = [one.get("name") for one in values["messages"] if one["type"] == "ai"]
    report("each agent works once", names == ["researcher", "writer"], values)
    graph = await client.assistants.get_graph("agent")
    nodes = {node["id"] for node in graph["nodes"]}
    report("its graph is drawn", {"supervisor", "researcher", "writer"} <= nodes, graph)


asyncio.run({"react-agent": react_agent, "supervisor": supervisor}[example]())
