# Deploys by the client of the published command line, unchanged: create, upload, patch, list, revisions, logs, delete.
# control-plane-client.py URL KEY
import gzip
import io
import sys
import tarfile
import uuid

import httpx
from langgraph_cli.host_backend import HostBackendClient, HostBackendError

url, key = sys.argv[1:]
client = HostBackendClient(url, key)
name = f"published-{uuid.uuid4().hex[:8]}"


def expect(what, is_true, found=None):
    if not is_true:
        sys.exit(f"{what}: {found}")


created = client.create_deployment(
    name=name,
    source="internal_source",
    source_config={},
    source_revision_config={},
    secrets=[{"name": "TOKEN", "value": "hush"}],
)
expect("create", created["name"] == name, created)
deployment = created["id"]

tarball = io.BytesIO()
with tarfile.open(fileobj=tarball, mode="w") as archive:
    info = tarfile.TarInfo("server.js")
    info.size = 2
    archive.addfile(info, io.BytesIO(b"//"))
upload = client.request_upload_url(deployment)
answer = httpx.put(
    upload["upload_url"], content=gzip.compress(tarball.getvalue()), headers=upload.get("upload_headers") or {}
)
expect("upload", answer.is_success, answer.text)
patched = client.update_deployment_internal_source(
    deployment, upload["object_path"], "slipway.json", build_command="npm run build"
)
expect("patch", patched["id"] == deployment, patched)
expect("patch of the build command", patched["source_config"].get("build_command") == "npm run build", patched)

listed = client.list_deployments(name_contains=name)
expect("list", [one["id"] for one in listed] == [deployment], listed)
expect("list by name", len(client.list_deployments(name=name)) == 1)
revisions = client.list_revisions(deployment, limit=10)
expect("revisions", len(revisions) == 2, revisions)
revision = client.get_revision(deployment, revisions[0]["id"])
expect("revision", revision["id"] == revisions[0]["id"], revision)
expect("get", client.get_deployment(deployment)["latest_revision_id"] == revisions[0]["id"])
client.get_build_logs(deployment, revisions[0]["id"], {"limit": 10})
client.get_deploy_logs(deployment, {"limit": 10})
expect("listeners", isinstance(client.list_listeners(), list))
client.delete_deployment(deployment)
gone = client.get_deployment(deployment)
expect("delete", gone["status"] == "AWAITING_DELETE", gone["status"])
try:
    client.get_deployment(str(uuid.uuid4()))
    sys.exit("An unknown deployment is found.")
except HostBackendError as error:
    expect("an error with its text", error.status_code == 404 and error.detail, error.message)
