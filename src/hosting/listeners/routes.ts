// Routes of listeners.

import { slice } from '../../kernel/http/routes.ts'
import { NewlyMadeApiKey } from '../../people/access/schema.ts'
import { namedPage } from '../../protocol/wire.ts'
import * as s from './schema.ts'
import * as listeners from './service.ts'

export const listenerRoutes = slice(
  'Listeners',
  'Your own data planes. Deployments that name no listener run on the listeners of the platform.',
)
  .get('/v2/listeners', {
    id: 'listListeners',
    toleratesUnknown: true,
    summary: 'List the listeners of this workspace',
    description:
      'Newest first. `last_seen_at` says when the agent last polled. The listeners of the platform are not in this ' +
      'list.',
    query: namedPage('compute_id'),
    reply: s.ListenerList,
    verb: listeners.listListeners,
  })
  .post('/v2/listeners', {
    id: 'createListener',
    toleratesUnknown: true,
    summary: 'Register a listener',
    description:
      'Then create a key for its agent with `POST /v2/listeners/{listener_id}/keys`, and start the agent with it. ' +
      'Until the agent polls, deployments on the listener wait.',
    body: s.NewListener,
    status: 201,
    reply: s.Listener,
    errors: ['listener_exists', 'workspace_not_found'],
    location: listener => `/v2/listeners/${listener.id}`,
    verb: listeners.createListener,
  })
  .get('/v2/listeners/{listener_id}', {
    id: 'readListener',
    toleratesUnknown: true,
    summary: 'Read a listener',
    description:
      '`last_seen_at` says when the agent last polled, and `version` which release it runs. Both are null before its ' +
      'first poll.',
    params: s.ListenerRef,
    reply: s.Listener,
    errors: ['listener_not_found'],
    versioned: true,
    verb: listeners.readListener,
  })
  .patch('/v2/listeners/{listener_id}', {
    id: 'changeListener',
    toleratesUnknown: true,
    summary: 'Change the namespaces of a listener that deployments can use',
    description: 'A namespace that still serves deployments cannot be removed: the answer is `listener_in_use`.',
    params: s.ListenerRef,
    body: s.ListenerPatch,
    reply: s.Listener,
    errors: ['listener_not_found', 'listener_in_use'],
    versioned: true,
    verb: listeners.changeListener,
  })
  .delete('/v2/listeners/{listener_id}', {
    id: 'deleteListener',
    toleratesUnknown: true,
    summary: 'Delete a listener that serves no deployments',
    description: 'The keys of its agents are deleted too.',
    params: s.ListenerRef,
    errors: ['listener_not_found', 'listener_in_use'],
    versioned: true,
    verb: listeners.deleteListener,
  })
  .post('/v2/listeners/{listener_id}/keys', {
    id: 'createListenerKey',
    summary: 'Create a key for the agent of a listener',
    description: [
      'The key allows what an agent of this listener does, and nothing else.',
      'List and revoke it with the API keys of the workspace.',
    ].join(' '),
    params: s.ListenerRef,
    body: s.NewListenerKey,
    status: 201,
    reply: NewlyMadeApiKey,
    errors: ['listener_not_found', 'role_exceeds_actor', 'key_outlives_creator'],
    verb: listeners.createListenerKey,
  })
