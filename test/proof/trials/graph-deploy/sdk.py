"""Uses a deployed graph as a person's own program does: sdk.py URL KEY. Prints a JSON line for each step."""

import asyncio
import json
import sys

from langgraph_sdk import get_client

url, key = sys.argv[1:]
message = lambda text: {"messages": [{"role": "user", "content": text}]}


async def main() -> None:
    client = get_client(url=url, api_key=key)

    async def step(name, work):
        try:
            answer = await work()
            print(json.dumps({"step": name, "ok": answer is True, "detail": repr(answer)}))
        except Exception as error:  # noqa: BLE001
            print(json.dumps({"step": name, "ok": False, "detail": repr(error)}))

    thread = await client.threads.create()
    id = thread["thread_id"]

    async def waits():
        values = await client.runs.wait(id, "agent", input=message("hello"))
        return values["messages"][-1]["content"] == "You said: hello"

    async def streams():
        parts = [part async for part in client.runs.stream(id, "agent", input=message("again"), stream_mode="values")]
        return "You said: again" in json.dumps(parts[-1].data)

    async def resumes():
        await client.runs.wait(id, "agent", input=message("send it"))
        state = await client.threads.get_state(id)
        values = await client.runs.wait(id, "agent", command={"resume": "yes"})
        return (state["next"] == ["answer"] and values["messages"][-1]["content"] == "Sent.") or (state, values)

    async def refuses():
        try:
            await get_client(url=url, api_key="wrong").threads.create()
        except Exception as error:  # noqa: BLE001
            status = getattr(error, "status_code", None) or error.response.status_code
            return status in (401, 403)
        return False

    await step("runs.wait", waits)
    await step("runs.stream", streams)
    await step("an interrupt is resumed", resumes)
    await step("another key is refused", refuses)


asyncio.run(main())
