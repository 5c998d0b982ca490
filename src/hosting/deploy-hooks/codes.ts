// Error codes of deploy hooks.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const deployHooksCodes = {
  deploy_hook_not_found: {
    status: 404,
    title: 'Deploy hook not found',
    problem: 'There is no such deploy hook, or it was deleted.',
    remedy: 'GET /v2/deployments/{deployment_id}/deploy-hooks lists those of a deployment.',
  },
  deploy_hook_name_taken: {
    status: 409,
    title: 'Deploy hook name taken',
    problem: 'This deployment already has a deploy hook with this `name`.',
    remedy: 'Choose another name, or delete that hook.',
  },
  deploy_hooks_full: {
    status: 409,
    title: 'Too many deploy hooks',
    problem: 'A deployment can have at most 20 deploy hooks.',
    remedy: 'Delete one that is not used any more.',
  },
  deploy_hook_held: {
    status: 409,
    title: 'Automatic deploys are held',
    problem: 'A rollback holds the automatic deploys of this deployment.',
    remedy: 'Release the hold of the deployment first.',
  },
  deploy_hook_ref: {
    status: 422,
    title: 'Ref not allowed',
    problem: 'This deploy hook may not deploy this `ref`.',
    remedy: 'Leave `ref` out to deploy the one of the deployment, or make a hook whose `refs` match it.',
  },
  deploy_hook_busy: {
    status: 429,
    title: 'Deploy hook used too often',
    problem: 'A deploy hook takes at most 10 requests a minute.',
    remedy: 'Retry after the time in `Retry-After`.',
  },
} as const satisfies ErrorCodes
