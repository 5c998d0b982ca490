// The tool that moves a revision in flight by the steps of its rollout, and sets those of later ones.
import * as z from 'zod'
import { ToolFailure } from './answers.ts'
import { DeploymentArgument, findDeploymentId } from './targets.ts'
import { type Tool, tool } from './tool.ts'

const MOVE = 'POST /v2/deployments/{deployment_id}/rollout/{action}'
const SET = 'PUT /v2/deployments/{deployment_id}/rollout'
const QUESTIONS = {
  pause: () => 'Keep the revision in flight at its step of the rollout of',
  resume: () => 'Let the revision in flight go on by the rollout of',
  promote: () => 'Give all requests to the revision in flight of',
  abort: () => 'Send all requests back, and end the revision in flight of',
  set: (policy: unknown) => `Use the steps and gates ${JSON.stringify(policy)} for later revisions of`,
}

const changeRollout = tool({
  name: 'change_rollout',
  title: 'Change a rollout',
  description: 'Moves the rollout (canary) in flight, or sets the steps and gates of later ones.',
  routes: [MOVE, SET],
  lookUps: ['GET /v2/deployments'],
  own: z.object({
    deployment: DeploymentArgument,
    action: z.enum(['pause', 'resume', 'promote', 'abort', 'set']),
    policy: z
      .record(z.string(), z.unknown())
      .optional()
      .meta({ type: 'object', description: 'For `set`: the body of setRollout.' }),
  }),
  isDestructive: true,
  isIdempotent: true,
  run: async ({ deployment, action, policy }, _, context) => {
    if ((action === 'set') !== (policy !== undefined))
      throw new ToolFailure('invalid_arguments', '`policy` goes with the action `set`, and only with it.')
    const deployment_id = await findDeploymentId(context, deployment)
    await context.confirm({ deployment_id, action, policy }, async () => `${QUESTIONS[action](policy)} ${deployment}?`)
    const headers = { 'If-Match': '*' }
    const { rollout, rollout_progress, serving } =
      action === 'set'
        ? await context.api(SET, { path: { deployment_id }, body: policy, headers })
        : await context.api(MOVE, { path: { deployment_id, action }, headers })
    return { summary: `Done: ${action}.`, data: { deployment_id, serving, rollout, rollout_progress } }
  },
})

export const rolloutTools: Tool[] = [changeRollout]
