// Routes of the protection of deployments.
import { slice } from '../../kernel/http/routes.ts'
import { NewProtection } from '../../protocol/protection.schema.ts'
import { Deployment, DeploymentRef } from '../deployments/schema.ts'
import * as bypasses from './bypasses.ts'
import { createGrant } from './grants.ts'
import { setProtection } from './protection.ts'
import * as s from './schema.ts'

export const protectionRoutes = slice('Protection', 'Who may see what a deployment serves.')
  .put('/v2/deployments/{deployment_id}/protection', {
    id: 'setDeploymentProtection',
    summary: 'Set who may see what a deployment serves',
    description: [
      'The router enforces it within seconds, for all addresses of the deployment.',
      'Nothing is built and nothing restarts. `protection` of the deployment shows it.',
    ].join(' '),
    params: DeploymentRef,
    body: NewProtection,
    reply: Deployment,
    errors: ['deployment_not_found', 'not_allowed_by_listener'],
    versioned: true,
    verb: setProtection,
  })
  .get('/v2/deployments/{deployment_id}/bypasses', {
    id: 'listBypasses',
    summary: 'List the share links and bypass tokens of a deployment, newest first',
    description: 'Their secrets are not stored. Those that have ended are listed for a week.',
    params: DeploymentRef,
    query: s.BypassQuery,
    reply: s.BypassList,
    errors: ['deployment_not_found'],
    verb: bypasses.listBypasses,
  })
  .post('/v2/deployments/{deployment_id}/bypasses', {
    id: 'createBypass',
    summary: 'Make a share link or a bypass token for a protected deployment',
    description: 'The secret is in this answer alone. It works at every address of the deployment, until it ends.',
    params: DeploymentRef,
    body: s.NewBypass,
    status: 201,
    reply: s.CreatedBypass,
    errors: ['deployment_not_found', 'bypasses_full'],
    verb: bypasses.createBypass,
  })
  .delete('/v2/deployments/{deployment_id}/bypasses/{bypass_id}', {
    id: 'revokeBypass',
    summary: 'Revoke a share link or a bypass token',
    description: 'Within seconds the router refuses it, also to browsers that have used it.',
    params: s.BypassRef,
    errors: ['bypass_not_found'],
    verb: bypasses.revokeBypass,
  })
  .post('/v2/deployments/{deployment_id}/access-grants', {
    id: 'createAccessGrant',
    summary: 'Get a grant by which a browser sees a protected deployment',
    description: [
      'For the page that the router sends people to. The grant is for one host and the browser with that `state`.',
      'It opens the host for 30 minutes, and for up to 12 hours while it is used and the session holds. Then the',
      'browser comes back by itself.',
    ].join(' '),
    params: DeploymentRef,
    body: s.GrantRequest,
    reply: s.Grant,
    errors: ['deployment_not_found', 'host_not_served'],
    verb: createGrant,
  })
