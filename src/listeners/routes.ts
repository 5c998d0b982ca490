// How HTTP reaches listeners.
import { NewlyMadeApiKey } from '../access/schema.ts'
import { slice } from '../kernel/routes.ts'
import { Page } from '../protocol/wire.ts'
import * as s from './schema.ts'
import * as listeners from './service.ts'

export const listenerRoutes = slice(
  'Listeners',
  'Data planes of your own, on which deployments run. Sources that name no listener are served by those of the installation.',
)
  .get('/v2/listeners', {
    id: 'listListeners',
    summary: 'The listeners of this workspace',
    query: Page,
    reply: s.ListenerList,
    verb: listeners.listListeners,
  })
  .post('/v2/listeners', {
    id: 'createListener',
    summary: 'Register a data plane',
    body: s.NewListener,
    status: 201,
    reply: s.Listener,
    errors: ['listener_exists', 'workspace_not_found'],
    location: listener => `/v2/listeners/${listener.id}`,
    verb: listeners.createListener,
  })
  .get('/v2/listeners/{listener_id}', {
    id: 'readListener',
    summary: 'One listener',
    params: s.ListenerRef,
    reply: s.Listener,
    errors: ['listener_not_found'],
    versioned: true,
    verb: listeners.readListener,
  })
  .patch('/v2/listeners/{listener_id}', {
    id: 'changeListener',
    summary: 'Change where on a listener deployments may live',
    params: s.ListenerRef,
    body: s.ListenerPatch,
    reply: s.Listener,
    errors: ['listener_not_found', 'listener_in_use'],
    versioned: true,
    verb: listeners.changeListener,
  })
  .delete('/v2/listeners/{listener_id}', {
    id: 'deleteListener',
    summary: 'Remove a listener on which nothing lives any more',
    description: 'The keys of its agents go with it.',
    params: s.ListenerRef,
    errors: ['listener_not_found', 'listener_in_use'],
    versioned: true,
    verb: listeners.deleteListener,
  })
  .post('/v2/listeners/{listener_id}/keys', {
    id: 'createListenerKey',
    summary: 'Make a key for the agent of a listener',
    description:
      'It can do what an agent does for this listener, and nothing else. It is listed and revoked among the API keys of the workspace.',
    params: s.ListenerRef,
    body: s.NewListenerKey,
    status: 201,
    reply: NewlyMadeApiKey,
    errors: ['listener_not_found', 'role_exceeds_actor', 'key_outlives_creator'],
    verb: listeners.createListenerKey,
  })
