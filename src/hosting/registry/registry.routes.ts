// Routes of the tokens of the registry.
import { validateInput } from '../../kernel/http/input.ts'
import { slice } from '../../kernel/http/routes.ts'
import { DeploymentRef } from '../deployments/schema.ts'
import * as s from './registry.schema.ts'
import { issueAccessToken, issueNewPushToken, issuePushToken } from './registry.ts'

export const registryRoutes = slice('Images', 'Container images for deployments of the source `internal_container`.')
  .post('/v2/deployments/{deployment_id}/push-token', {
    id: 'createPushToken',
    toleratesUnknown: true,
    summary: 'Get a token to push images, and the registry to push them to',
    description: [
      'Log in at the registry’s host with `docker login --username slipway --password-stdin`,',
      'push `<registry_url>/<name>:<tag>`, then patch `source_revision_config.image_uri` with it.',
    ].join(' '),
    params: DeploymentRef,
    reply: s.PushToken,
    errors: ['deployment_not_found', 'deployment_deleting', 'source_rule', 'not_configured'],
    verb: issuePushToken,
  })
  .post('/v2/push-tokens', {
    id: 'createImagePushToken',
    summary: 'Get a token to push the image of a new deployment, and the registry to push it to',
    description:
      'Push `<registry_url>/<name>:<tag>`, then create the deployment with it as `source_revision_config.image_uri`.',
    reply: s.PushToken,
    errors: ['workspace_not_found', 'source_rule', 'not_configured'],
    verb: issueNewPushToken,
  })
  .get('/v2/registry/token', {
    id: 'createRegistryToken',
    summary: 'Exchange a push token for an access token of the registry',
    description: [
      'The token service of the registry’s protocol. Send a push token as the password of Basic authentication.',
      'The answer is a JWT for pulling and pushing below the token’s `registry_url`. It is valid for five minutes.',
      'Agents exchange a credential of POST /v1/sync/credentials in the same way.',
    ].join(' '),
    query: s.AccessQuery,
    reply: s.AccessToken,
    errors: [
      'push_token_invalid',
      'push_token_expired',
      'registry_credential_ended',
      'not_configured',
      'address_rate_limited',
      'database_unavailable',
    ],
    open: async (c, services) => {
      validateInput(c.req, { query: s.AccessQuery }, '', [])
      const { requestId } = c.var
      const request = { authorization: c.req.header('Authorization'), scopes: c.req.queries('scope') ?? [], requestId }
      return c.json(await issueAccessToken(services, request), 200, { 'Cache-Control': 'no-store' })
    },
  })
