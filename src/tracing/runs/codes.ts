// Error codes of runs.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const runsCodes = {
  query_too_slow: {
    status: 400,
    title: 'Query too slow',
    problem: 'This query reads more than its time allows.',
    remedy: 'Narrow it: to fewer runs, projects or examples, or to a filter that compares fewer texts.',
  },
  filter_invalid: {
    status: 400,
    title: 'Invalid filter',
    problem: 'A filter does not follow the filter language.',
    remedy: 'Correct it at the position that `errors` names.',
  },
  trace_key_confined: {
    status: 403,
    title: 'Not with a trace key',
    problem: 'The key of an application sends runs into the project of its deployment, and does nothing else.',
    remedy: 'Leave the project out to use that one, or use an API key.',
  },
  download_link_invalid: {
    status: 403,
    title: 'Invalid download link',
    problem: 'The signature of this link does not match.',
    remedy: 'Use the whole address from the poll, unchanged.',
  },
  run_object_not_found: {
    status: 404,
    title: 'Object not found',
    problem: 'What this link leads to was not found: it was deleted with its trace, or never stored.',
    remedy: 'Read the run again.',
  },
  run_not_found: {
    status: 404,
    title: 'Run not found',
    problem: 'This run was not found.',
    remedy: 'POST /runs/query finds runs.',
  },
  run_in_other_project: {
    status: 409,
    title: 'Run in another project',
    problem: 'A run with this id belongs to another tracing project.',
    remedy: 'Send each run to one project, or give it an id of its own.',
  },
  download_link_expired: {
    status: 410,
    title: 'Download link expired',
    problem: 'This link has expired.',
    remedy: 'Poll again for a new one.',
  },
} as const satisfies ErrorCodes
