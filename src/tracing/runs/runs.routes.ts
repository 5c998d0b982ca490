// Routes that read runs.
import { validateInput } from '../../kernel/http/input.ts'
import { slice } from '../../kernel/http/routes.ts'
import { openRunObject } from './object-links.ts'
import * as st from './run-stats.schema.ts'
import { readRunStats } from './run-stats.ts'
import * as s from './runs.schema.ts'
import { queryRuns, readRun, validateFilters } from './runs.ts'

const objectLinkInput = { params: s.ObjectRef, query: s.ObjectSignature }
/** Content that a client stored is not shown as a page of this origin. */
const OBJECT_HEADERS = {
  'Cache-Control': 'private, max-age=3600',
  'Content-Disposition': 'attachment',
  'Content-Security-Policy': 'sandbox',
  'X-Content-Type-Options': 'nosniff',
}

export const runRoutes = slice('Runs', 'What applications did: runs, and the traces that they are part of.')
  .post('/runs/query', {
    id: 'queryRuns',
    summary: 'List runs, the newest first',
    description: [
      'Filters follow the language of docs/observe/query-traces.md.',
      'A page reads a bounded number of runs, so it may have fewer than `limit`: go on while `cursors.next` is set.',
    ].join(' '),
    isReadOnly: true,
    toleratesUnknown: true,
    body: s.RunQueryBody,
    reply: s.RunPage,
    errors: ['filter_invalid', 'query_too_slow', 'project_not_found', 'storage_unavailable'],
    verb: queryRuns,
  })
  .post('/runs/query/validate', {
    id: 'validateFilters',
    summary: 'Check filters of runs',
    description: 'Names the first fault of each filter, and its place.',
    isReadOnly: true,
    toleratesUnknown: true,
    body: s.FilterCheckBody,
    reply: s.FilterErrors,
    verb: validateFilters,
  })
  .post('/runs/stats', {
    id: 'readRunStats',
    summary: 'Add up runs',
    description: 'All runs of the selection, as one or by groups. A selection that takes too long is refused.',
    isReadOnly: true,
    toleratesUnknown: true,
    body: st.RunStatsBody,
    reply: st.RunStatsReply,
    errors: ['filter_invalid', 'query_too_slow', 'project_not_found'],
    verb: readRunStats,
  })
  .get('/runs/{run_id}', {
    id: 'readRun',
    summary: 'Read a run',
    description: 'It has inputs, outputs and events in full. `session_id` and `start_time` let it be found faster.',
    params: s.RunRef,
    query: s.RunReadQuery,
    reply: s.Run,
    errors: ['run_not_found', 'storage_unavailable'],
    verb: readRun,
  })
  .get('/runs/{run_id}/objects/{name}', {
    id: 'downloadRunObject',
    summary: 'Download an attachment or a long payload of a run',
    description: 'The URL is a `presigned_url` of a run. Its signature replaces a key.',
    ...objectLinkInput,
    streamMediaType: 'application/octet-stream',
    errors: [
      'download_link_invalid',
      'download_link_expired',
      'run_not_found',
      'run_object_not_found',
      'storage_unavailable',
      'query_too_slow',
      'address_rate_limited',
      'database_unavailable',
    ],
    open: async (c, services) => {
      const link = validateInput(c.req, objectLinkInput, '', []) as s.ObjectLink
      const { body, type } = await openRunObject(services, link, c.get('requestId'))
      return new Response(body, { headers: { ...OBJECT_HEADERS, 'Content-Type': type } })
    },
  })
