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


@step("sessions of the second version: create, list, read, update, resolve")
def _():
    dataset = client.create_dataset(f"{name}-v2")
    place = {"type": "EXPERIMENT", "reference_dataset_id": str(dataset.id)}
    experiment = generated.sessions.create_v2(name=f"{name}-v2", **place)
    assert any(one.name == name for one in generated.sessions.list_v2(name_contains=name))
    changed = generated.sessions.update_v2(experiment.id, description="second", trace_tier="LONG_LIVED")
    assert (changed.type, changed.trace_tier) == ("EXPERIMENT", "LONG_LIVED"), changed
    assert generated.sessions.retrieve_v2(experiment.id, include_stats=True).description == "second"
    assert generated.sessions.resolve(kind="EXPERIMENT", id=experiment.id).session_id == experiment.id
    made.update(dataset=dataset.id, experiment=experiment.id)


@step("datasets of the second version: list, runs of experiments, delete an example")
def _():
    dataset = str(made["dataset"])
    assert [one.id for one in generated.datasets.list_v2(name=f"{name}-v2")] == [dataset]
    client.create_examples(dataset_id=dataset, examples=[{"inputs": {"a": 1}}])
    [example] = generated.datasets.experiment_runs.query(dataset, experiment_ids=[made["experiment"]], selects=["NAME"])
    assert (example.inputs, example.runs) == ({"a": 1}, []), example
    generated.datasets.examples.delete(example.id, dataset_id=dataset)
    generated.datasets.examples.delete(example.id, dataset_id=dataset)
    client.delete_dataset(dataset_id=dataset)
    client.delete_project(project_id=made["experiment"])


@step("threads: share, read, unshare")
def _():
    now = datetime.now(timezone.utc)
    extra = {"metadata": {"thread_id": name}}
    client.create_run("turn", {}, "chain", id=uuid.uuid4(), project_name=name, start_time=now, extra=extra)
    place = {"project_id": str(made["project"])}
    token = generated.threads.share.create(name, **place).share_token
    assert token and generated.threads.share.retrieve(name, **place).share_token == token
    assert generated.public.runs.query(token, selects=["NAME"]).items[0].name == "turn"
    generated.threads.share.delete(name, **place)
    assert generated.threads.share.retrieve(name, **place).share_token is None


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
    list(generated.evaluators.list_v2())


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


@step("refused: address of an agent")
def _():
    generated.sessions.resolve(kind="AGENT", id="a", environment="STAGING")


@step("refused: final answers of queues")
def _():
    generated.annotation_queues.items.set_final("correct", queue_id=name, item_id=name, score=1)


@step("projects: delete")
def _():
    client.delete_project(project_name=name)


print(json.dumps({"step": f"version {langsmith.__version__}", "ok": True, "detail": ""}))
