// Routes of links that show a run to anyone, and of the deletion of traces.
import type * as z from 'zod'
import { requireRow } from '../../kernel/db/rows.ts'
import { validateInput } from '../../kernel/http/input.ts'
import { readOpenBody } from '../../kernel/http/open-body.ts'
import { slice } from '../../kernel/http/routes.ts'
import { FeedbackList } from '../feedback/feedback.schema.ts'
import { deleteTraces } from '../runs/deletion.ts'
import { Run, RunRef } from '../runs/runs.schema.ts'
import { answerShare, SHARE_ERRORS } from './share-visits.ts'
import * as s from './shares.schema.ts'
import { listSharedFeedback, readRunShare, readSharedRuns, shareRun, unshareRun } from './shares.ts'

const deletion = {
  idempotent: true,
  toleratesUnknown: true,
  body: s.TraceDeletion,
  reply: s.DeletedTraces,
  verb: deleteTraces,
} as const

export const runShareRoutes = slice('Shared runs', 'Links that show a run to anyone, and the deletion of traces.')
  .get('/runs/{run_id}/share', {
    id: 'readRunShare',
    summary: 'Read the link that shows a run',
    description: 'Null if the run is not shared.',
    params: RunRef,
    reply: s.RunShare.nullable(),
    errors: ['run_not_found'],
    verb: readRunShare,
  })
  .put('/runs/{run_id}/share', {
    id: 'shareRun',
    summary: 'Create a link that shows a run and the runs below it, or return the one that exists',
    description:
      'Anyone with the link sees inputs, outputs and feedback of these runs, without a key. Sharing again returns ' +
      'the same link.',
    idempotent: true,
    untypedBody: true,
    toleratesUnknown: true,
    params: RunRef,
    body: s.NewRunShare,
    reply: s.RunShare,
    errors: ['run_not_found', 'share_token_taken', 'quota_full'],
    verb: shareRun,
  })
  .delete('/runs/{run_id}/share', {
    id: 'unshareRun',
    summary: 'Delete the link that shows a run',
    description: 'The link stops working at once. To unshare a run that is not shared succeeds and changes nothing.',
    idempotent: true,
    params: RunRef,
    errors: ['run_not_found'],
    verb: unshareRun,
  })
  .post('/runs/delete', {
    id: 'deleteRuns',
    summary: 'Delete traces with all their runs and feedback',
    description:
      'Names the traces by `trace_ids`, or by `metadata` of their runs. Up to 1,000 traces: while `has_more` is ' +
      'true, send the request again. It cannot be undone.',
    ...deletion,
  })
  .post('/runs/delete/traces', {
    id: 'deleteTraces',
    summary: 'Delete traces, as `/runs/delete` does',
    description: 'As `/runs/delete`: while `has_more` is true, send the request again.',
    ...deletion,
  })
  .get('/public/{share_token}/run', {
    id: 'readSharedRun',
    summary: 'Read the run that a link shows',
    description:
      'Takes no API key: the token in the path replaces it. Of a thread, the first of its traces. 404 once it is no ' +
      'longer shared.',
    params: s.ShareRef,
    reply: Run,
    errors: SHARE_ERRORS,
    open: async (c, services) => {
      const { share_token } = validateInput(c.req, { params: s.ShareRef }, '', []) as { share_token: string }
      return answerShare(c, services, share_token, async visit =>
        requireRow(await readSharedRuns(visit, 'first'), 'run_share_not_found'),
      )
    },
  })
  .get('/public/{share_token}/run/{run_id}', {
    id: 'readSharedRunById',
    summary: 'Read a run below the one that a link shows',
    description:
      'Takes no API key: the token in the path replaces it. Only the shared run and the runs below it are shown.',
    params: s.SharedRunRef,
    reply: Run,
    errors: [...SHARE_ERRORS, 'run_not_found'],
    open: async (c, services) => {
      const input = validateInput(c.req, { params: s.SharedRunRef }, '', []) as Record<'share_token' | 'run_id', string>
      return answerShare(c, services, input.share_token, async visit =>
        requireRow(await readSharedRuns(visit, [input.run_id]), 'run_not_found'),
      )
    },
  })
  .post('/public/{share_token}/runs/query', {
    id: 'querySharedRuns',
    summary: 'Read runs that a link shows',
    description:
      'Takes no API key: the token in the path replaces it. Without `id`, the answer is the shared run alone.',
    isReadOnly: true,
    params: s.ShareRef,
    body: s.SharedRunQuery,
    reply: s.SharedRunPage,
    errors: [...SHARE_ERRORS, 'not_json', 'bodies_busy', 'body_too_slow'],
    open: async (c, services) => {
      const text = await readOpenBody(c, services)
      const schemas = { params: s.ShareRef, body: s.SharedRunQuery }
      const { share_token, id } = validateInput(c.req, schemas, text, []) as {
        share_token: string
        id?: string[] | null
      }
      return answerShare(c, services, share_token, async visit => {
        const runs = await readSharedRuns(visit, id ?? 'first')
        return { runs, cursors: { next: null, prev: null }, parsed_query: null } satisfies s.SharedRunPage
      })
    },
  })
  .get('/public/{share_token}/feedbacks', {
    id: 'listSharedFeedback',
    summary: 'List feedback of the runs that a link shows, newest first',
    description: 'Takes no API key: the token in the path replaces it. Names of people are not shown.',
    params: s.ShareRef,
    query: s.SharedFeedbackQuery,
    repeatable: ['run', 'session', 'key', 'source'],
    toleratesUnknown: true,
    reply: FeedbackList,
    errors: SHARE_ERRORS,
    open: async (c, services) => {
      const schemas = {
        params: s.ShareRef,
        query: s.SharedFeedbackQuery,
        repeatable: ['run', 'session', 'key', 'source'],
      }
      const { share_token, ...query } = validateInput(c.req, schemas, '', []) as SharedFeedbackInput
      return answerShare(c, services, share_token, visit => listSharedFeedback(visit, query))
    },
  })
type SharedFeedbackInput = { share_token: string } & z.output<typeof s.SharedFeedbackQuery>
