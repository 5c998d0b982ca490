// Routes of drains.
import { slice } from '../../kernel/http/routes.ts'
import * as drains from './drains.ts'
import * as s from './schema.ts'

export const drainRoutes = slice(
  'Drains',
  'Places that the logs, requests, metrics, traces and events of a workspace are sent to, as they come.',
)
  .get('/v2/drains', {
    id: 'listDrains',
    summary: 'List the drains of this workspace',
    description: 'Newest first. `state` says what was sent, what waits and what was dropped. Headers are never shown.',
    query: s.DrainQuery,
    reply: s.DrainList,
    verb: drains.listDrains,
  })
  .post('/v2/drains', {
    id: 'createDrain',
    summary: 'Send signals of this workspace to a receiver',
    description:
      'What comes from then on is sent, at least once: the agents keep lines and metrics on their disks until the ' +
      'receiver has taken them. Agents learn of it within half a minute.',
    body: s.NewDrain,
    status: 201,
    reply: s.Drain,
    errors: [
      'blocked_url',
      'drain_name_taken',
      'drain_signal_unsupported',
      'deployment_not_found',
      'tag_value_not_found',
      'workspace_not_found',
    ],
    location: drain => `/v2/drains/${drain.id}`,
    verb: drains.createDrain,
  })
  .get('/v2/drains/{drain_id}', {
    id: 'readDrain',
    summary: 'Read a drain and how its sending goes',
    description: '`state.senders` has the counts of each agent. They tell them every ten seconds.',
    params: s.DrainRef,
    reply: s.Drain,
    errors: ['drain_not_found'],
    versioned: true,
    verb: drains.readDrain,
  })
  .patch('/v2/drains/{drain_id}', {
    id: 'changeDrain',
    summary: 'Change, stop or resume a drain',
    description:
      'What waits at agents goes to the new address. A `url` of another server needs `headers`, because the old ' +
      'ones are secrets of the old server.',
    params: s.DrainRef,
    body: s.DrainPatch,
    reply: s.Drain,
    errors: [
      'drain_not_found',
      'blocked_url',
      'drain_name_taken',
      'drain_signal_unsupported',
      'drain_headers_required',
      'deployment_not_found',
      'tag_value_not_found',
    ],
    versioned: true,
    verb: drains.changeDrain,
  })
  .delete('/v2/drains/{drain_id}', {
    id: 'deleteDrain',
    summary: 'Delete a drain',
    description: 'What waits at agents is deleted, too. A request that is under way may still arrive.',
    params: s.DrainRef,
    errors: ['drain_not_found'],
    versioned: true,
    verb: drains.deleteDrain,
  })
  .post('/v2/drains/{drain_id}/test', {
    id: 'testDrain',
    summary: 'Send a test line and show the status of the answer',
    description: 'By the control plane, also to a disabled drain. It is not repeated. Not for `syslog`.',
    params: s.DrainRef,
    reply: s.DrainTest,
    errors: ['drain_not_found', 'drain_not_testable'],
    callsExternalServers: true,
    verb: drains.testDrain,
  })
