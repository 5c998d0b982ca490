# The client of the published command line, unchanged, where the command itself needs Docker: images that it pushes.
# images.py URL KEY
import json
import sys
import uuid

from langgraph_cli.host_backend import HostBackendClient, HostBackendError

url, key = sys.argv[1:]
client = HostBackendClient(url, key)
name = f"image-{uuid.uuid4().hex[:8]}"


def say(step, ok, detail=""):
    print(json.dumps({"step": step, "ok": ok, "detail": str(detail)[:400]}))


created = client.create_deployment(
    name=name,
    source="internal_docker",
    source_config={"deployment_type": "dev_zero"},
    source_revision_config={},
    secrets=[{"name": "TOKEN", "value": "internal_docker"}],
)
say("create of internal_docker", created["source"] == "internal_docker", created)
token = client.request_push_token(created["id"])
say("push token", bool(token["token"] and token["registry_url"]), list(token))
updated = client.update_deployment(
    created["id"],
    f"{token['registry_url']}/app@sha256:{'0' * 64}",
    revision_source="internal_docker",
    secrets=[{"name": "TOKEN", "value": "internal_docker"}],
    tracked_packages=["langgraph"],
)
say("update of the image", updated["source_revision_config"]["image_uri"].endswith("0" * 64), updated)
revisions = client.list_revisions(created["id"], limit=10)
say("revisions", revisions[0]["source"] == "internal_docker", revisions)
other = client.create_deployment(
    name=f"{name}-source", source="internal_source", source_config={}, source_revision_config={}, secrets=[]
)
try:
    client.request_push_token(other["id"])
    say("push token of another source", False)
except HostBackendError as error:
    say("push token of another source", "only available for 'internal_docker' source deployments" in error.message, error)
for one in (created, other):
    client.delete_deployment(one["id"])
say("version", True)
