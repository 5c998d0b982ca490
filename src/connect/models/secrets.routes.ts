// Routes of the keys of model providers, in the forms of published clients.
import { slice } from '../../kernel/http/routes.ts'
import * as w from './secrets.schema.ts'
import { deleteSecret, listSecrets, putSecret, storeSecrets } from './workspace-secrets.ts'

export const secretRoutes = slice(
  'Workspace secrets',
  'Keys of model providers as published clients store them: each is the secret of a model configuration.',
)
  .get('/workspaces/current/secrets', {
    id: 'listWorkspaceSecrets',
    summary: 'List the model providers that this workspace can call, by the names of their keys',
    description: 'Names only: values are never shown. A key is listed if its provider has a model configuration.',
    toleratesUnknown: true,
    query: w.SecretQuery,
    reply: w.SecretList,
    verb: listSecrets,
  })
  .post('/workspaces/current/secrets', {
    id: 'storeWorkspaceSecrets',
    summary: 'Store keys of model providers',
    description: 'As published clients do it. `POST /v1/model-configurations` says more.',
    toleratesUnknown: true,
    body: w.NewSecrets,
    reply: w.SecretList,
    errors: ['model_url_not_allowed', 'model_exists', 'quota_full'],
    verb: storeSecrets,
  })
  .put('/workspaces/current/secrets/{secret_key}', {
    id: 'putWorkspaceSecret',
    idempotent: true,
    summary: 'Store the key of a model provider',
    description: 'It makes or changes the model configuration of the provider that has its name.',
    toleratesUnknown: true,
    params: w.SecretRef,
    body: w.SecretChange,
    reply: w.WorkspaceSecret,
    errors: ['model_not_found', 'model_url_not_allowed', 'model_exists', 'quota_full'],
    verb: putSecret,
  })
  .delete('/workspaces/current/secrets/{secret_key}', {
    id: 'deleteWorkspaceSecret',
    idempotent: true,
    summary: 'Delete the key of a model provider, with the model configuration that it made',
    description: 'One that is not stored is no error. Other configurations of the provider stay.',
    params: w.SecretRef,
    errors: ['model_not_found'],
    verb: deleteSecret,
  })
