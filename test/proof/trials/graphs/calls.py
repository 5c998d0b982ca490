"""The calls of the Python SDK, each with what its answer must have. Prints a line of JSON for each."""

import asyncio
import json
import sys
import time
import uuid

from langgraph_sdk import get_client

client = get_client(url=sys.argv[1])
team = f"team-{uuid.uuid4()}"
kept: dict = {}


def human(content: str) -> dict:
    return {"messages": [{"role": "user", "content": content}]}


def texts(values: dict) -> list[str]:
    return [message["content"] for message in values["messages"]]


async def new_thread() -> str:
    return (await client.threads.create())["thread_id"]


async def assistants_search() -> None:
    found = await client.assistants.search(graph_id="agent")
    assert found[0]["metadata"]["created_by"] == "system"


async def assistants_get_graph() -> None:
    graph = await client.assistants.get_graph("agent")
    assert any(node["id"] == "answer" for node in graph["nodes"])


async def assistants_get_schemas() -> None:
    assert "messages" in (await client.assistants.get_schemas("agent"))["input_schema"]["properties"]


async def assistants_create_update() -> None:
    made = await client.assistants.create("agent", name="Mine", metadata={"team": team})
    changed = await client.assistants.update(made["assistant_id"], name="Ours")
    assert changed["version"] == 2 and changed["name"] == "Ours"
    kept["assistant"] = made["assistant_id"]


async def assistants_count_delete() -> None:
    assert await client.assistants.count(metadata={"team": team}) == 1
    await client.assistants.delete(kept["assistant"])
    assert await client.assistants.count(metadata={"team": team}) == 0


async def threads_create_ttl() -> None:
    thread = await client.threads.create(ttl=5, metadata={"team": team})
    assert thread["status"] == "idle"


async def threads_update_get() -> None:
    thread = await new_thread()
    await client.threads.update(thread, metadata={"a": 1})
    assert (await client.threads.get(thread))["metadata"] == {"a": 1}


async def threads_search_count() -> None:
    assert len(await client.threads.search(metadata={"team": team})) == 1
    assert await client.threads.count(metadata={"team": team}) == 1


async def runs_wait() -> None:
    kept["thread"] = await new_thread()
    values = await client.runs.wait(kept["thread"], "agent", input=human("hi"))
    assert texts(values) == ["hi", "You said: hi"]


async def runs_wait_stateless() -> None:
    assert await client.runs.wait(None, "trivial", input={"value": 41}) == {"value": 42}


async def runs_wait_failing() -> None:
    try:
        await client.runs.wait(await new_thread(), "failing", input=human("x"))
    except Exception as error:
        assert "this graph fails" in str(error)
    else:
        raise AssertionError("no error")


async def runs_stream() -> None:
    parts = [
        part
        async for part in client.runs.stream(
            await new_thread(),
            "agent",
            input=human("hi"),
            stream_mode=["values", "messages-tuple", "custom", "updates"],
        )
    ]
    assert {"metadata", "values", "messages", "custom", "updates"} <= {part.event for part in parts}


async def runs_stream_events() -> None:
    parts = [part async for part in client.runs.stream(None, "agent", input=human("hi"), stream_mode="events")]
    assert any(part.data.get("event") == "on_chat_model_stream" for part in parts)


async def threads_state_history() -> None:
    state = await client.threads.get_state(kept["thread"])
    history = await client.threads.get_history(kept["thread"])
    assert history[0]["checkpoint"] == state["checkpoint"] and len(history) >= 3


async def threads_update_state() -> None:
    await client.threads.update_state(kept["thread"], human("added"), as_node="answer")
    assert texts((await client.threads.get_state(kept["thread"]))["values"])[-1] == "added"


async def threads_copy() -> None:
    copy = await client.threads.copy(kept["thread"])
    assert texts((await client.threads.get_state(copy["thread_id"]))["values"])[-1] == "added"


async def interrupt_resume() -> None:
    thread = await new_thread()
    values = await client.runs.wait(thread, "agent", input=human("delete it"))
    assert values["__interrupt__"][0]["value"] == {"question": "May I delete it?"}
    values = await client.runs.wait(thread, "agent", command={"resume": "yes"})
    assert texts(values)[-1] == "Decision: yes"


async def interrupt_before() -> None:
    thread = await new_thread()
    await client.runs.wait(thread, "agent", input=human("go"), interrupt_before=["approve"])
    assert (await client.threads.get_state(thread))["next"] == ["approve"]
    await client.runs.wait(thread, "agent", input=None)
    assert (await client.threads.get_state(thread))["next"] == []


async def runs_create_join_list() -> None:
    thread = await new_thread()
    run = await client.runs.create(thread, "agent", input=human("later"))
    assert texts(await client.runs.join(thread, run["run_id"]))[-1] == "You said: later"
    assert len(await client.runs.list(thread)) == 1


async def runs_cancel() -> None:
    thread = await new_thread()
    run = await client.runs.create(thread, "slow", input=human("x"))
    await asyncio.sleep(0.5)
    await client.runs.cancel(thread, run["run_id"], wait=True)
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "interrupted"


async def runs_create_batch() -> None:
    payloads = [{"assistant_id": "trivial", "input": {"value": value}} for value in (1, 2)]
    assert len(await client.runs.create_batch(payloads)) == 2


async def runs_join_stream() -> None:
    thread = await new_thread()
    config = {"configurable": {"steps": 4, "pause": 100}}
    run = await client.runs.create(thread, "slow", input=human("x"), config=config, stream_mode=["custom", "values"])
    parts = [part async for part in client.runs.join_stream(thread, run["run_id"], last_event_id="-1")]
    steps = [part.data["step"] for part in parts if part.event == "custom"]
    assert steps == [1, 2, 3, 4], parts


async def threads_join_stream() -> None:
    thread = await new_thread()

    async def read() -> list:
        found = []
        async for part in await client.threads.join_stream(thread):
            found.append(part)
            if part.event == "values" and texts(part.data)[-1] == "You said: hi":
                return found

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.5)
    await client.runs.create(thread, "agent", input=human("hi"), stream_mode="values")
    assert len(await asyncio.wait_for(reading, 10)) >= 2


async def store_all() -> None:
    namespace = ["users", team]
    await client.store.put_item(namespace, key="likes", value={"food": "pizza"}, ttl=60)
    assert (await client.store.get_item(namespace, key="likes"))["value"] == {"food": "pizza"}
    assert len((await client.store.search_items(namespace, filter={"food": "pizza"}))["items"]) == 1
    assert (await client.store.list_namespaces(prefix=namespace))["namespaces"] == [namespace]
    await client.store.delete_item(namespace, key="likes")


async def crons_all() -> None:
    cron = await client.crons.create("trivial", schedule="0 9 * * 1-5", input={"value": 1})
    assert any(one["cron_id"] == cron["cron_id"] for one in await client.crons.search())
    changed = await client.crons.update(cron["cron_id"], schedule="0 8 * * *")
    assert changed["schedule"] == "0 8 * * *"
    await client.crons.delete(cron["cron_id"])


async def threads_prune_delete() -> None:
    ids = [await new_thread(), await new_thread()]
    assert (await client.threads.prune(ids))["pruned_count"] == 2
    await client.threads.delete(kept["thread"])


CALLS = [
    assistants_search,
    assistants_get_graph,
    assistants_get_schemas,
    assistants_create_update,
    assistants_count_delete,
    threads_create_ttl,
    threads_update_get,
    threads_search_count,
    runs_wait,
    runs_wait_stateless,
    runs_wait_failing,
    runs_stream,
    runs_stream_events,
    threads_state_history,
    threads_update_state,
    threads_copy,
    interrupt_resume,
    interrupt_before,
    runs_create_join_list,
    runs_cancel,
    runs_create_batch,
    runs_join_stream,
    threads_join_stream,
    store_all,
    crons_all,
    threads_prune_delete,
]


async def main() -> None:
    for call in CALLS:
        start = time.monotonic()
        line = {"name": call.__name__, "ok": True}
        try:
            await asyncio.wait_for(call(), 25)
        except Exception as error:
            line |= {"ok": False, "detail": f"{type(error).__name__}: {error}"[:400]}
        print(json.dumps(line | {"ms": round((time.monotonic() - start) * 1000)}), flush=True)


asyncio.run(main())
