// The tools that change previews: made of a ref, a commit or an image, deleted, and let run for a fork. Each is
// confirmed by what it names: a preview has no plan.
import * as z from 'zod'
import { DeploymentArgument, findDeploymentId } from './targets.ts'
import { type Tool, tool } from './tool.ts'

const LOOK_UPS = ['GET /v2/deployments']
const Text = z.string().min(1).max(255)

const APPROVE = 'POST /v2/deployments/{deployment_id}/previews/{number}/approval'
const approvePreview = tool({
  name: 'approve_preview',
  title: 'Approve a preview',
  description:
    'Lets one commit of a fork run as a preview, with the secrets of the preview policy. A person must have seen it.',
  routes: [APPROVE],
  lookUps: LOOK_UPS,
  own: z.object({
    deployment: DeploymentArgument,
    number: z.coerce.number().int().meta({ description: 'Of the pull request.' }),
    head_sha: z
      .string()
      .regex(/^[0-9a-f]{1,64}$/i, { error: 'must be the id of a commit' })
      .meta({ description: 'The full id of the commit that was looked at.' }),
  }),
  isIdempotent: true,
  run: async ({ deployment, number, head_sha }, _, context) => {
    const deployment_id = await findDeploymentId(context, deployment)
    await context.confirm(
      { deployment_id, number, head_sha },
      async () => `Run commit ${head_sha} of pull request #${number} of ${deployment}? It is code from a fork.`,
    )
    const path = { deployment_id, number }
    const preview = await context.api(APPROVE, { path, body: { head_sha } })
    const { state, branch, url, approved_sha } = preview
    return { summary: `Approved. The preview is ${state}.`, data: { number, state, branch, url, approved_sha } }
  },
})

const REQUEST = 'POST /v2/deployments/{deployment_id}/previews'
const makePreview = tool({
  name: 'make_preview',
  title: 'Make or update a preview',
  description: 'A preview of one ref, commit or image. The same branch updates it.',
  routes: [REQUEST],
  lookUps: LOOK_UPS,
  own: z.object({
    deployment: DeploymentArgument,
    branch: Text.optional().meta({ description: 'Names it.' }),
    repo_ref: Text.optional(),
    repo_commit_sha: Text.optional(),
    image_uri: z.string().min(1).max(2048).optional(),
  }),
  run: async ({ deployment, ...body }, _, context) => {
    const deployment_id = await findDeploymentId(context, deployment)
    const source = Object.entries(body).map(([name, value]) => `${name} ${JSON.stringify(value)}`)
    await context.confirm(
      { deployment_id, ...body },
      async () => `Make a preview of ${deployment}, with the secrets of its preview policy? ${source.join(', ')}.`,
    )
    const { id, state, branch } = await context.api(REQUEST, { path: { deployment_id }, body })
    return {
      summary: `The preview is ${state}. \`list_previews\` shows its URL once it is \`live\`.`,
      data: { id, state, branch },
    }
  },
})

/** A person reads it in the question. */
const PREVIEW = /^([1-9]\d{0,8}|[0-9a-f-]{36})$/i
const REMOVE = 'DELETE /v2/deployments/{deployment_id}/previews/{number}'
const deletePreview = tool({
  name: 'delete_preview',
  title: 'Delete a preview',
  description: 'Ends a preview. A later push creates it again.',
  routes: [REMOVE],
  lookUps: LOOK_UPS,
  own: z.object({
    deployment: DeploymentArgument,
    preview: z
      .preprocess(value => (typeof value === 'number' ? String(value) : value), z.string().regex(PREVIEW))
      .meta({ description: 'Id, or number of its pull request.' }),
  }),
  isDestructive: true,
  run: async ({ deployment, preview: number }, _, context) => {
    const deployment_id = await findDeploymentId(context, deployment)
    await context.confirm(
      { deployment_id, number },
      async () => `Delete the preview ${number} of ${deployment}, with its data?`,
    )
    await context.api(REMOVE, { path: { deployment_id, number } })
    return { summary: 'Deleted.', data: { deployment_id, preview: number } }
  },
})

export const previewTools: Tool[] = [makePreview, approvePreview, deletePreview]
