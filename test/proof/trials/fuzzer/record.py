"""A check of Schemathesis that never fails: it records each answer, for the trial to judge."""

import json
import os

import schemathesis

CASES = open(os.environ["SLIPWAY_CASES"], "a", buffering=1, encoding="utf-8")


def read_faults(response):
    """The code and the types of the faults of a refusal."""
    try:
        body = response.json()
    except Exception:
        return None, []
    if not isinstance(body, dict):
        return None, []
    faults = body.get("errors") or []
    places = [[".".join(str(part) for part in fault["loc"])[:120], fault["type"]] for fault in faults]
    return body.get("code") or body.get("error"), places


@schemathesis.check
def recorded(ctx, response, case):
    if case.meta is None or case.method.lower() != case.operation.method.lower():
        return
    code, faults = read_faults(response) if response.status_code >= 400 else (None, [])
    media_type = (response.headers.get("content-type") or [""])[0].split(";")[0].strip()
    line = {
        "operation": case.operation.definition.raw["operationId"],
        "phase": case.meta.phase.name.value,
        "isAllowed": case.meta.generation.mode.is_positive,
        "status": response.status_code,
        "mediaType": media_type,
        "code": code,
        "faults": faults,
    }
    CASES.write(json.dumps(line) + "\n")
