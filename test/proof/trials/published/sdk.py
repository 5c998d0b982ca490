# The published SDK, unchanged, over what it can call of an installation: a line of JSON for each step.
# sdk.py URL KEY
import json
import sys
import uuid
from datetime import datetime, timezone

import langsmith
from langsmith import Client, Langsmith

url, key = sys.argv[1:]
client = Client(api_url=url, api_key=key, auto_batch_tracing=False)
generated = Langsmith(base_url=url, api_key=key, max_retries=0)
name = f"python-{uuid.uuid4().hex[:8]}"
made = {}


def step(what):
    def run(act):
        try:
            found = act()
            print(json.dumps({"step": what, "ok": True, "detail": str(found)[:200]}))
        except Exception as error:
            print(json.dumps({"step": what, "ok": False, "detail": str(error)[:400]}))

    return run


@step("projects: create, read, list, update")
def _():
    project = client.create_project(name, description="first")
    made["project"] = project.id
    assert client.read_project(project_name=name).id == project.id
    assert [one.name for one in client.list_projects(name=name)] == [name]
    client.update_project(project.id, description="second")


@step("runs: create, update, read, list, count")
def _():
    run = made["run"] = uuid.uuid4()
    now = datetime.now(timezone.utc)
    client.create_run("question", {"source": "github"}, "chain", id=run, project_name=name, start_time=now)
    client.update_run(run, outputs={"answer": "internal_docker"}, end_time=datetime.now(timezone.utc))
    read = client.read_run(run)
    assert read.inputs == {"source": "github"} and read.outputs == {"answer": "internal_docker"}, read
    assert [one.id for one in client.list_runs(project_name=name)] == [run]


@step("feedback: create, read, list, update, delete")
def _():
    given = client.create_feedback(made["run"], "correct", score=1, comment="github")
    assert client.read_feedback(given.id).comment == "github"
    assert len(list(client.list_feedback(run_ids=[made["run"]]))) == 1
    client.update_feedback(given.id, score=0)
    client.delete_feedback(given.id)


@step("runs: share, unshare")
def _():
    assert client.share_run(made["run"])
    assert client.run_is_shared(made["run"])
    client.unshare_run(made["run"])


@step("datasets: create, read, list, examples, versions, share, delete")
def _():
    dataset = client.create_dataset(name, description="first")
    examples = client.create_examples(dataset_id=dataset.id, examples=[{"inputs": {"a": 1}, "outputs": {"b": 2}}])
    assert examples["count"] == 1, examples
    [example] = client.list_examples(dataset_id=dataset.id)
    client.update_example(example.id, outputs={"b": 3})
    assert client.read_example(example.id).outputs == {"b": 3}
    assert [one.id for one in client.list_datasets(dataset_name=name)] == [dataset.id]
    list(client.list_dataset_versions(dataset_id=dataset.id))
    client.share_dataset(dataset.id)
    client.unshare_dataset(dataset.id)
    client.delete_example(example.id)
    client.delete_dataset(dataset_id=dataset.id)


@step("annotation queues: create, add, read, delete")
def _():
    queue = client.create_annotation_queue(name=name)
    client.add_runs_to_annotation_queue(queue.id, run_ids=[made["run"]])
    assert client.get_run_from_annotation_queue(queue.id, index=0).id == made["run"]
    client.delete_annotation_queue(queue.id)


@step("workspace secrets: upsert, list, delete")
def _():
    generated.workspace_secrets.upsert("OPENAI_API_KEY", value="github")
    assert [one.key for one in generated.workspace_secrets.list()] == ["OPENAI_API_KEY"]
    generated.workspace_secrets.list(include_configs=True)
    generated.workspace_secrets.delete("OPENAI_API_KEY")
    generated.workspace_secrets.delete("OPENAI_API_KEY")
    assert generated.workspace_secrets.list() == []


@step("sessions of the second version: list")
def _():
    assert any(one.name == name for one in generated.sessions.list_v2(name_contains=name))


@step("runs of the second version: query")
def _():
    list(generated.runs.query_v2(project_ids=[str(made["project"])], min_start_time="2020-01-01T00:00:00Z"))


@step("tags: keys and values")
def _():
    tag = generated.workspace_tags.keys.create(key=name)
    generated.workspace_tags.keys.values.create(tag.id, value="a")
    generated.workspace_tags.keys.delete(tag.id)


@step("evaluators: list")
def _():
    list(generated.evaluators.list())


@step("info")
def _():
    return generated.info.list()


@step("refused: prompts")
def _():
    list(generated.repos.list())


@step("refused: sandboxes")
def _():
    list(generated.sandboxes.boxes.list())


@step("refused: agents")
def _():
    list(generated.agents.list())


@step("projects: delete")
def _():
    client.delete_project(project_name=name)


print(json.dumps({"step": f"version {langsmith.__version__}", "ok": True, "detail": ""}))
