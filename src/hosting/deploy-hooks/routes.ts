// Routes of deploy hooks.
import type * as z from 'zod'
import { readOpenRequest } from '../../kernel/http/caller.ts'
import { validateInput } from '../../kernel/http/input.ts'
import { type OpenOperation, slice } from '../../kernel/http/routes.ts'
import { DeploymentRef } from '../deployments/schema.ts'
import * as hooks from './deploy-hooks.ts'
import * as s from './schema.ts'

type Use = z.output<typeof s.DeployHookUse> & z.output<typeof s.DeployHookUseQuery>
const useInput = { params: s.DeployHookUse, query: s.DeployHookUseQuery }

/** Unknown tokens count against the address that tries them. */
const handleUse: OpenOperation['open'] = async (c, services, operation) => {
  const { token, ref } = validateInput(c.req, useInput, '', []) as Use
  const key = c.req.header('Idempotency-Key') ?? null
  const { reply, isRepeated } = await c.var.limits.prove(
    c,
    { route: 'deploy-hook', name: token, refusal: 'deploy_hook_not_found' },
    () => hooks.runDeployHook(services, readOpenRequest(c, operation, services), { token, ref: ref ?? null, key }),
  )
  return c.json(reply, 202, {
    'Cache-Control': 'no-store',
    ...(isRepeated && { 'Idempotency-Replayed': 'true' }),
  })
}

export const deployHookRoutes = slice('Deploy hooks', 'Secret URLs that deploy.')
  .get('/v2/deployments/{deployment_id}/deploy-hooks', {
    id: 'listDeployHooks',
    summary: 'List the deploy hooks of a deployment, newest first',
    description: 'Their URLs are not shown again.',
    params: DeploymentRef,
    query: s.DeployHookQuery,
    reply: s.DeployHookList,
    errors: ['deployment_not_found'],
    verb: hooks.listDeployHooks,
  })
  .post('/v2/deployments/{deployment_id}/deploy-hooks', {
    id: 'createDeployHook',
    summary: 'Create a secret URL that deploys',
    description: [
      'For a content system, a script or another pipeline: a POST to `url` deploys the head of the ref, without a key.',
      'The URL is shown once, and only a hash of it is stored. A deployment can have 20.',
    ].join(' '),
    params: DeploymentRef,
    body: s.NewDeployHook,
    status: 201,
    reply: s.DeployHookWithUrl,
    errors: [
      ...(['deployment_not_found', 'deployment_deleting', 'source_rule'] as const),
      ...(['deploy_hook_name_taken', 'deploy_hooks_full'] as const),
    ],
    verb: hooks.createDeployHook,
  })
  .delete('/v2/deployments/{deployment_id}/deploy-hooks/{hook_id}', {
    id: 'deleteDeployHook',
    summary: 'Delete a deploy hook, so that its URL ends',
    description: 'Revisions that it made stay.',
    params: s.DeployHookRef,
    errors: ['deploy_hook_not_found'],
    verb: hooks.deleteDeployHook,
  })
  .post('/v2/deploy-hooks/{token}', {
    id: 'runDeployHook',
    summary: 'Deploy by a secret URL',
    description: [
      'Takes no API key: the token in the path replaces it. The answer names the revision, which is built later.',
      'At most 10 requests a minute. With an `Idempotency-Key`, a repeated request makes no second revision.',
    ].join(' '),
    params: s.DeployHookUse,
    query: s.DeployHookUseQuery,
    status: 202,
    reply: s.HookedRevision,
    errors: [
      ...(['deploy_hook_not_found', 'deploy_hook_ref', 'deploy_hook_held', 'deploy_hook_busy'] as const),
      ...(['source_rule', 'invalid_request', 'address_rate_limited', 'database_unavailable'] as const),
    ],
    open: handleUse,
  })
