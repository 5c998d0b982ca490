// How HTTP reaches the registry's tokens.
import { validateInput } from '../kernel/input.ts'
import { slice } from '../kernel/routes.ts'
import * as s from './registry.schema.ts'
import { issueAccessToken, issuePushToken } from './registry.ts'
import { DeploymentRef } from './schema.ts'

export const registryRoutes = slice('Images', 'Container images for deployments of the source `internal_container`.')
  .post('/v2/deployments/{deployment_id}/push-token', {
    id: 'offerPush',
    summary: 'A token to push images with, and where to',
    description:
      'Log in with `docker login --username slipway --password-stdin` at the registry’s host, push `<registry_url>/<name>:<tag>`, then patch `source_revision_config.image_uri` with it.',
    params: DeploymentRef,
    reply: s.PushToken,
    errors: ['deployment_not_found', 'deployment_deleting', 'source_rule', 'not_configured'],
    verb: issuePushToken,
  })
  .get('/v2/registry/token', {
    id: 'grantRegistryAccess',
    summary: 'What a registry sends its clients for',
    description:
      'The token service of the registry’s protocol: a push token as the password of Basic authentication is traded for a JWT, good for five minutes, that lets its bearer pull and push below the `registry_url` of that token. What an agent was given by POST /v1/sync/credentials is traded the same way, for what that says.',
    query: s.AccessQuery,
    reply: s.AccessToken,
    errors: ['push_token_invalid', 'push_token_expired', 'registry_credential_ended', 'not_configured'],
    open: async (c, services) => {
      validateInput(c.req, { query: s.AccessQuery }, '', [])
      const { requestId } = c.var
      const asked = { authorization: c.req.header('Authorization'), scopes: c.req.queries('scope') ?? [], requestId }
      return c.json(await issueAccessToken(services, asked), 200, { 'Cache-Control': 'no-store' })
    },
  })
