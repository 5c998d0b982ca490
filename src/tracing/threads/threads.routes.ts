// Routes that read threads.
import { slice } from '../../kernel/http/routes.ts'
import * as s from './threads.schema.ts'
import * as threads from './threads.ts'

export const threadRoutes = slice('Threads', 'Conversations: traces of a project that share a `thread_id`.')
  .post('/runs/group', {
    id: 'groupRuns',
    summary: 'List the threads of a project, those with the latest start first',
    description: 'The metadata of a root names its thread: `session_id`, `thread_id` or `conversation_id`.',
    isReadOnly: true,
    toleratesUnknown: true,
    body: s.ThreadGroupBody,
    reply: s.ThreadGroups,
    errors: ['filter_invalid', 'query_too_slow', 'project_not_found'],
    verb: threads.groupRuns,
  })
  .post('/runs/group/stats', {
    id: 'readGroupStats',
    summary: 'Add up the threads of a project',
    description:
      'The threads that `POST /runs/group` would list, summed up as one: how many they are, their latency, tokens, ' +
      'cost and feedback.',
    isReadOnly: true,
    toleratesUnknown: true,
    body: s.ThreadGroupBody,
    reply: s.ThreadGroupStats,
    errors: ['filter_invalid', 'query_too_slow', 'project_not_found'],
    verb: threads.readGroupStats,
  })
  .get('/runs/threads/{thread_id}', {
    id: 'readThreadPreview',
    summary: 'Read what was said in a thread',
    description:
      'Made from the previews of the latest 100 traces, so long messages are shortened. Read the runs for the whole ' +
      'text.',
    params: s.ThreadRef,
    query: s.ThreadPreviewQuery,
    repeatable: ['select', 'variables'],
    toleratesUnknown: true,
    reply: s.ThreadPreview,
    errors: ['project_not_found', 'thread_not_found', 'query_too_slow'],
    verb: threads.readThreadPreview,
  })
