// Error codes of drains.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const drainsCodes = {
  drain_not_found: {
    status: 404,
    title: 'Drain not found',
    problem: 'This workspace has no such drain.',
    remedy: 'GET /v2/drains lists the drains.',
  },
  drain_name_taken: {
    status: 409,
    title: 'Name of a drain taken',
    problem: 'Another drain of this workspace has this name. Upper and lower case do not differ.',
    remedy: 'Choose another name, or change that drain.',
  },
  drain_signal_unsupported: {
    status: 422,
    title: 'Signal not possible for this drain',
    problem: 'The kind or the scope of the drain does not allow one of its signals.',
    remedy:
      '`otlp` and `ndjson` take every signal, `loki` takes no metrics and no traces, `syslog` takes `logs` and ' +
      '`requests`. `events` and `traces` are of the whole workspace: leave out `deployment_ids` and `tag_value_ids`.',
  },
  drain_headers_required: {
    status: 422,
    title: 'Headers required',
    problem: 'The headers of a drain are secrets for its old address, and are not sent to another one.',
    remedy: 'Send `headers` with the new `url`. An empty object sends none.',
  },
  drain_not_testable: {
    status: 422,
    title: 'Drain not testable from the control plane',
    problem: 'Only agents send by syslog, so the control plane cannot try it.',
    remedy: 'Write a line in a deployment of the drain. GET /v2/drains/{drain_id} says whether it was sent.',
  },
} as const satisfies ErrorCodes
