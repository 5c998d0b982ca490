"""A check of Schemathesis that never fails: it records each answer, for the trial to judge."""

import json
import os
import uuid
from collections import Counter

import schemathesis

CASES = open(os.environ["SLIPWAY_CASES"], "a", buffering=1, encoding="utf-8")


# The phase of coverage makes every case that a schema defines: some have thousands, most about the same member.
MAX_COVERAGE = int(os.environ["SLIPWAY_COVERAGE_CASES"])
made = Counter()


@schemathesis.hook
def filter_case(ctx, case):
    if case.meta is None or case.meta.phase.name.value != "coverage":
        return True
    key = (case.operation.label, case.meta.generation.mode.is_positive)
    place = made[key]
    made[key] += 1
    # All of the first half, and every third later one.
    return place < MAX_COVERAGE // 2 or (place < MAX_COVERAGE * 2 and place % 3 == 0)


@schemathesis.hook
def map_case(ctx, case):
    """This phase gives all cases of an operation one key, so that all but the first would be refused as its reuse."""
    if case.meta and case.meta.phase.name.value == "coverage" and case.meta.generation.mode.is_positive:
        if case.headers and "Idempotency-Key" in case.headers:
            case.headers["Idempotency-Key"] = str(uuid.uuid4())
    return case


# The key that the fuzzer has, and its workspace: without them, all later cases would be refused.
KEPT = os.environ["SLIPWAY_KEPT_IDS"].split(",")


@schemathesis.hook
def before_call(ctx, case, kwargs):
    if case.method.upper() == "DELETE":
        for name, value in (case.path_parameters or {}).items():
            if str(value).lower() in KEPT:
                case.path_parameters[name] = str(uuid.uuid4())


def find_link(ctx, case):
    """The link that led to this case, if a value of the earlier answer is in it."""
    recorder = ctx.internals.recorder
    node = recorder.cases.get(case.id) if recorder else None
    return node.transition.id if node and node.transition and node.is_transition_applied else None


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
        "link": find_link(ctx, case),
    }
    CASES.write(json.dumps(line) + "\n")
