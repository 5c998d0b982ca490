// Routes of runs, traces and threads in the second version of the API of published clients.

import { requireRow } from '../../kernel/db/rows.ts'
import type { Code } from '../../kernel/http/codes.ts'
import { validateInput } from '../../kernel/http/input.ts'
import { readOpenBody } from '../../kernel/http/open-body.ts'
import { slice } from '../../kernel/http/routes.ts'
import { ProjectReadQuery, ProjectRef, Upsert } from '../projects/projects.schema.ts'
import * as p from '../projects/projects-v2.schema.ts'
import * as projects from '../projects/projects-v2.ts'
import { answerShare, SHARE_ERRORS } from '../shares/share-visits.ts'
import { SharedRunRef, ShareRef } from '../shares/shares.schema.ts'
import { listSharedRuns, shareTrace, unshareRun } from '../shares/shares.ts'
import * as shares from '../shares/thread-shares.ts'
import { ThreadRef } from '../threads/threads.schema.ts'
import * as t from '../threads/threads-v2.schema.ts'
import * as threads from '../threads/threads-v2.ts'
import { columnsOfV2, readSelects } from './run-wire-v2.ts'
import { RunRef } from './runs.schema.ts'
import * as s from './runs-v2.schema.ts'
import * as runs from './runs-v2.ts'

const FILTERED: Code[] = ['filter_invalid', 'query_too_slow', 'project_not_found']

export const v2Routes = slice('Runs, version 2', 'Runs, traces and threads as newer clients read them.')
  .post('/v2/runs/query', {
    id: 'queryRunsV2',
    summary: 'List runs, by default the newest of the last day first',
    description:
      'Name the projects by `project_ids`, or a dataset by `reference_dataset_id`. Members that are not in `selects` ' +
      'are left out. Go on while `next_cursor` is set, as a page may have fewer runs than `page_size`.',
    isReadOnly: true,
    toleratesUnknown: true,
    body: s.RunQueryV2,
    reply: s.RunPageV2,
    errors: [...FILTERED, 'storage_unavailable'],
    verb: runs.queryRunsV2,
  })
  .get('/v2/runs/{run_id}', {
    id: 'readRunV2',
    summary: 'Read a run of a project',
    description:
      '`selects` names the members to return: without it, only the id is returned. With `start_time` the run is ' +
      'found faster.',
    params: RunRef,
    query: s.RunReadQueryV2,
    lists: ['selects'],
    reply: s.RunV2,
    errors: ['run_not_found', 'storage_unavailable'],
    verb: runs.readRunV2,
  })
  .get('/v2/runs/{run_id}/url', {
    id: 'readRunUrl',
    summary: 'Read where the dashboard shows a run',
    description: 'A URL of this installation’s dashboard, for links in messages. Who opens it has to be signed in.',
    params: RunRef,
    query: s.RunUrlQuery,
    reply: s.RunUrl,
    errors: ['run_not_found'],
    verb: runs.readRunUrl,
  })
  .post('/v2/runs/{run_id}/share', {
    id: 'shareTrace',
    summary: 'Create a link that shows the trace of a run, or return the one that exists',
    description:
      'The link is that of the root, so it shows the whole trace, without a key, to anyone who has it. Sharing again ' +
      'returns the same link.',
    idempotent: true,
    toleratesUnknown: true,
    params: RunRef,
    body: s.NewTraceShare,
    reply: s.TraceShare,
    errors: ['run_not_found', 'quota_full'],
    verb: shareTrace,
  })
  .delete('/v2/runs/{run_id}/share', {
    id: 'unshareTrace',
    summary: 'Delete the link that shows a trace',
    description:
      'Name the root of the trace. The link stops working at once. To unshare what is not shared succeeds and ' +
      'changes nothing.',
    idempotent: true,
    params: RunRef,
    errors: ['run_not_found'],
    verb: unshareRun,
  })
  .post('/v2/traces/query', {
    id: 'queryTraces',
    summary: 'List traces by their roots, by default the newest of the last day first',
    description:
      'Each item is the root of a trace of one project. Members that are not in `selects` are left out. Go on while ' +
      '`next_cursor` is set.',
    isReadOnly: true,
    toleratesUnknown: true,
    body: s.TraceQueryV2,
    reply: s.TracePageV2,
    errors: [...FILTERED, 'storage_unavailable'],
    verb: runs.queryTraces,
  })
  .get('/v2/traces/{trace_id}/runs', {
    id: 'listTraceRuns',
    summary: 'List the runs of a trace, the first 1,000 in their order',
    description:
      'In the order of the tree: each run comes after the one that called it. `selects` names the members to return.',
    params: s.TraceRef,
    query: s.TraceRunsQuery,
    lists: ['selects'],
    reply: s.RunListV2,
    errors: [...FILTERED, 'storage_unavailable'],
    verb: runs.listTraceRuns,
  })
  .post('/v2/threads/query', {
    id: 'queryThreads',
    summary: 'List the threads of a project, by default those of the last day',
    description:
      'A thread is all traces with the same `thread_id` in their metadata. Those with the latest start come first. ' +
      'Go on while `next_cursor` is set.',
    isReadOnly: true,
    toleratesUnknown: true,
    body: t.ThreadQueryV2,
    reply: t.ThreadPageV2,
    errors: FILTERED,
    verb: threads.queryThreads,
  })
  .post('/v2/threads/stats', {
    id: 'readThreadAggregates',
    summary: 'Add up the threads of a project, by default those of the last day',
    description: '`select` names the figures to compute. Takes the filters of the list.',
    isReadOnly: true,
    toleratesUnknown: true,
    body: t.ThreadAggregateBody,
    reply: t.ThreadAggregates,
    errors: FILTERED,
    verb: threads.readThreadAggregates,
  })
  .get('/v2/threads/{thread_id}/traces', {
    id: 'listThreadTraces',
    summary: 'List the traces of a thread',
    description: '`selects` names the members to return. Go on while `next_cursor` is set.',
    params: ThreadRef,
    query: t.ThreadTraceQuery,
    lists: ['selects'],
    reply: t.ThreadTracePage,
    errors: [...FILTERED, 'storage_unavailable'],
    verb: threads.listThreadTraces,
  })
  .get('/v2/threads/{thread_id}/stats', {
    id: 'readThreadStats',
    summary: 'Add up the traces of a thread',
    description:
      '`selects` names the figures to compute over all traces of the thread: their number, latency, tokens and cost, ' +
      'for example.',
    params: ThreadRef,
    query: t.ThreadStatsQuery,
    lists: ['selects'],
    reply: t.ThreadStats,
    errors: ['query_too_slow', 'project_not_found', 'thread_not_found'],
    verb: threads.readThreadStats,
  })
  .post('/v2/threads/{thread_id}/share', {
    id: 'shareThread',
    summary: 'Create a link that shows a thread, or return the one that exists',
    description:
      'Anyone with the link sees the traces of the thread, later ones too, without a key: `POST ' +
      '/v2/public/{share_token}/runs/query` lists their roots. Sharing again returns the same link.',
    idempotent: true,
    toleratesUnknown: true,
    params: ThreadRef,
    body: t.NewThreadShare,
    reply: t.ThreadShare,
    errors: ['project_not_found', 'thread_not_found', 'quota_full'],
    verb: shares.shareThread,
  })
  .get('/v2/threads/{thread_id}/share', {
    id: 'readThreadShare',
    summary: 'Read the link that shows a thread',
    description: 'Without `share_token` if the thread is not shared. It needs the permission that sharing needs.',
    params: ThreadRef,
    query: t.ThreadPlace,
    reply: t.ThreadShare,
    errors: ['project_not_found'],
    verb: shares.readThreadShare,
  })
  .delete('/v2/threads/{thread_id}/share', {
    id: 'unshareThread',
    summary: 'Delete the link that shows a thread',
    description: 'The link stops working at once. To unshare what is not shared succeeds and changes nothing.',
    idempotent: true,
    params: ThreadRef,
    query: t.ThreadPlace,
    errors: ['project_not_found'],
    verb: shares.unshareThread,
  })
  .get('/v2/sessions', {
    id: 'listProjectsV2',
    summary: 'List the tracing projects of this workspace, page by page',
    description:
      'Go on while `next_cursor` is set. Statistics are added with `include_stats`, and cost a further permission ' +
      'only where `stats_filter` or `include_facets` read runs.',
    query: p.ProjectQueryV2,
    repeatable: ['id', 'reference_dataset_id', 'tag_value_id', 'stats_select', 'type'],
    toleratesUnknown: true,
    reply: p.ProjectPageV2,
    errors: ['filter_invalid', 'query_too_slow'],
    verb: projects.listProjectsV2,
  })
  .post('/v2/sessions', {
    id: 'createProjectV2',
    toleratesUnknown: true,
    summary: 'Create a tracing project or an experiment',
    description: 'To keep its traces for longer than others takes the permission `projects:increase-trace-tier`.',
    query: Upsert,
    body: p.NewProjectV2,
    reply: p.ProjectV2,
    errors: [
      'project_name_taken',
      'project_id_taken',
      'dataset_not_found',
      'tag_value_not_found',
      'quota_full',
      'denied_by_policy',
      'workspace_not_found',
    ],
    location: project => `/v2/sessions/${project.id}`,
    verb: projects.createProjectV2,
  })
  .get('/v2/sessions/{session_id}', {
    id: 'readProjectV2',
    versioned: true,
    toleratesUnknown: true,
    summary: 'Read a tracing project or an experiment',
    description: 'With `include_stats`, it has counts, latency, tokens, cost and feedback of its traces.',
    params: ProjectRef,
    query: ProjectReadQuery,
    reply: p.ProjectV2,
    errors: ['project_not_found'],
    verb: projects.readProjectV2,
  })
  .patch('/v2/sessions/{session_id}', {
    id: 'changeProjectV2',
    versioned: true,
    toleratesUnknown: true,
    summary: 'Change a tracing project or an experiment',
    description:
      'Unlike `PATCH /sessions/{session_id}`, null removes a value, and `extra` is merged. A project of a deployment ' +
      'keeps its name.',
    params: ProjectRef,
    body: p.ProjectPatchV2,
    reply: p.ProjectV2,
    errors: [
      'project_not_found',
      'project_name_taken',
      'project_of_deployment',
      'dataset_not_found',
      'quota_full',
      'denied_by_policy',
    ],
    verb: projects.changeProjectV2,
  })
  .get('/v2/public/{share_token}/run/{run_id}', {
    id: 'readSharedRunV2',
    summary: 'Read a run that a link shows',
    description: 'Takes no API key: the token in the path replaces it. `selects` names the members to return.',
    params: SharedRunRef,
    query: s.SharedRunReadQuery,
    lists: ['selects'],
    reply: s.RunV2,
    errors: [...SHARE_ERRORS, 'run_not_found'],
    open: async (c, services) => {
      const schemas = { params: SharedRunRef, query: s.SharedRunReadQuery, lists: ['selects'] }
      const input = validateInput(c.req, schemas, '', []) as SharedInput & { run_id: string }
      const selects = readSelects(input.selects)
      return answerShare(c, services, input.share_token, async visit => {
        const found = await listSharedRuns(visit, columnsOfV2(selects), [input.run_id])
        requireRow(found.runs, 'run_not_found')
        const [run] = await runs.showRunsV2(found.ctx, found.runs, selects)
        return run
      })
    },
  })
  .post('/v2/public/{share_token}/runs/query', {
    id: 'querySharedRunsV2',
    summary: 'List the runs that a link shows, the first 1,000 in their order',
    description:
      'Takes no API key: the token in the path replaces it. `selects` names the members to return. Of a thread, ' +
      'these are the roots of its traces: a run below one of them is read by its id.',
    isReadOnly: true,
    params: ShareRef,
    body: s.SharedRunQueryV2,
    reply: s.RunListV2,
    errors: [...SHARE_ERRORS, 'not_json', 'bodies_busy', 'body_too_slow'],
    open: async (c, services) => {
      const schemas = { params: ShareRef, body: s.SharedRunQueryV2 }
      const input = validateInput(c.req, schemas, await readOpenBody(c, services), []) as SharedInput
      const selects = readSelects(input.selects)
      return answerShare(c, services, input.share_token, async visit => {
        const found = await listSharedRuns(visit, columnsOfV2(selects))
        return { items: await runs.showRunsV2(found.ctx, found.runs, selects) }
      })
    },
  })
type SharedInput = { share_token: string; selects?: s.SelectV2[] | null }
