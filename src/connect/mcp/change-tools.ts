// The tools that change a workspace: a plan first, then exactly that plan, by its digest.
import * as z from 'zod'
import { type Answer, ToolFailure } from './answers.ts'
import { ApiFailure, type ApiRequest } from './api-calls.ts'
import { deploymentPage } from './reading-tools.ts'
import { DeploymentArgument, findDeploymentId, findRevisions, REVISION_LOOK_UPS, RevisionArgument } from './targets.ts'
import { type Tool, type ToolContext, tool } from './tool.ts'

// biome-ignore lint/suspicious/noExplicitAny: the API answers by its schemas
type Body = any

const CREATE = 'POST /v2/deployments'
const PATCH = 'PATCH /v2/deployments/{deployment_id}'
const REDEPLOY = 'POST /v2/deployments/{deployment_id}/revisions'
const REDEPLOY_REVISION = 'POST /v2/deployments/{deployment_id}/revisions/{revision_id}/redeploy'
const ROLL_BACK = 'POST /v2/deployments/{deployment_id}/rollback'
const CHANGES = [CREATE, PATCH, REDEPLOY, REDEPLOY_REVISION, ROLL_BACK]

const changeArguments = {
  change: z.enum(['create', 'patch', 'redeploy', 'rollback']).meta({ description: 'What to do.' }),
  deployment: DeploymentArgument.optional().meta({ description: 'Name or id. Not for `create`.' }),
  revision: RevisionArgument.optional().meta({
    description: 'For `rollback` and to redeploy an older one: number, id or `serving`.',
  }),
  body: z.record(z.string(), z.unknown()).optional().meta({
    type: 'object',
    description:
      'For `create` and `patch`: the body of createDeployment or patchDeployment. `search_api` shows their schema.',
  }),
}
const Change = z.object(changeArguments)
type Change = z.output<typeof Change>
type ResolvedChange = { route: string; request: ApiRequest; isVersioned: boolean }

/** Resolves a change to a request. Applying a plan resolves names again: the digest of the plan has the ids. */
async function resolveChange(context: ToolContext, { change, deployment, revision, body }: Change) {
  const need = (value: string | undefined, name: string): string => {
    if (value === undefined) throw new ToolFailure('invalid_arguments', `\`${change}\` needs \`${name}\`.`)
    return value
  }
  if (change === 'create') return { route: CREATE, request: { body: body ?? {} }, isVersioned: false }
  const name = need(deployment, 'deployment')
  if (change === 'patch') {
    const path = { deployment_id: await findDeploymentId(context, name) }
    return { route: PATCH, request: { path, body: body ?? {} }, isVersioned: true }
  }
  if (change === 'redeploy' && revision === undefined) {
    const path = { deployment_id: await findDeploymentId(context, name) }
    return { route: REDEPLOY, request: { path }, isVersioned: false }
  }
  const [target] = await findRevisions(context, name, [need(revision, 'revision')])
  if (change === 'redeploy') return { route: REDEPLOY_REVISION, request: { path: target }, isVersioned: true }
  const { deployment_id, revision_id } = target!
  return { route: ROLL_BACK, request: { path: { deployment_id }, body: { revision_id } }, isVersioned: true }
}

/**
 * The digest of the API, and a number that is used once. A repeat of `apply_plan` has the same number, so it gets the
 * stored answer; a later plan of the same change has another one.
 */
const SEPARATOR = '~'
const numberPlan = ({ plan_digest, ...plan }: Body) => ({
  ...plan,
  plan_digest: `${plan_digest}${SEPARATOR}${crypto.randomUUID().slice(0, 8)}`,
})
const digestOf = (planDigest: string) => planDigest.split(SEPARATOR)[0]!

const makePlan = async ({ api }: ToolContext, { route, request }: ResolvedChange): Promise<Body> =>
  numberPlan(await api(route, { ...request, query: { dry_run: true } }))

const MAX_VALUE = 80
const shortly = (value: unknown) => {
  const json = JSON.stringify(value) ?? 'null'
  return json.length > MAX_VALUE ? `${json.slice(0, MAX_VALUE)}…` : json
}
const MAX_LINES = 20

function summarize({ change, deployment, body, revision }: Change, plan: Body): string {
  // Quotes only arguments that the change uses: a person accepts this text, and a model can write anything into the
  // rest.
  const name = change === 'create' ? body?.name : deployment
  const target = revision === undefined || change === 'create' || change === 'patch' ? '' : `, revision ${revision}`
  const lines = [
    `${change} ${name}${target}: ${plan.creates_revision ? 'creates a revision.' : 'creates no revision.'}`,
    ...plan.changes.map((one: Body) => `${one.path}: ${shortly(one.before)} → ${shortly(one.after)} (${one.effect})`),
    ...plan.secrets.map((secret: Body) => `secret ${secret.name}: ${secret.change}`),
    ...plan.warnings.map((warning: string) => `Warning: ${warning}`),
  ]
  const more = lines.length > MAX_LINES ? [`And ${lines.length - MAX_LINES} more.`] : []
  return [...lines.slice(0, MAX_LINES), ...more].join('\n')
}

const planChange = tool({
  name: 'plan_change',
  title: 'Plan a change',
  description:
    'First step to deploy an application, set variables or other settings, redeploy or roll back: what that would ' +
    'do. Changes nothing. Show the plan to the person, then call `apply_plan` with the same arguments and its ' +
    '`plan_digest`.',
  routes: CHANGES,
  lookUps: REVISION_LOOK_UPS,
  own: Change,
  onlyPlans: true,
  run: async (change, _, context) => {
    const plan = await makePlan(context, await resolveChange(context, change))
    return { summary: summarize(change, plan), data: plan }
  },
})

/** Their descriptions cost tokens, and are those of `plan_change`. */
const plannedArguments = {
  change: changeArguments.change.meta({ description: undefined }),
  deployment: changeArguments.deployment.meta({ description: undefined }),
  revision: changeArguments.revision.meta({ description: undefined }),
  body: changeArguments.body.meta({ type: 'object', description: undefined }),
}

/** It becomes the value of two headers. */
const PlanDigest = z
  .string()
  .regex(/^[\x21-\x7e]{1,100}$/, { error: 'must be the `plan_digest` of a plan' })
  .meta({ description: 'From `plan_change`.' })

const applyPlan = tool({
  name: 'apply_plan',
  title: 'Apply a plan',
  description: 'Applies the plan with this digest and no other. If something has changed since, nothing happens.',
  routes: CHANGES,
  lookUps: REVISION_LOOK_UPS,
  own: z.object({ ...plannedArguments, plan_digest: PlanDigest }),
  isDestructive: true,
  isIdempotent: true,
  run: async ({ plan_digest, ...change }, _, context) => {
    const resolved = await resolveChange(context, change)
    await context.confirm({ resolved, plan_digest }, async () => {
      const plan = await makePlan(context, resolved)
      if (digestOf(plan.plan_digest) !== digestOf(plan_digest)) throw staleFailure(change, plan)
      return `Apply this plan?\n${summarize(change, plan)}`
    })
    try {
      return describeApplied(change, await context.api(resolved.route, toApplyRequest(resolved, plan_digest)))
    } catch (error) {
      if (!(error instanceof ApiFailure) || error.problem.code !== 'plan_stale') throw error
      throw staleFailure(change, await makePlan(context, resolved))
    }
  },
})

const staleFailure = (change: Change, plan: Body) =>
  new ToolFailure('plan_stale', `Nothing was applied. The plan is now another one: ${summarize(change, plan)}`, {
    plan,
  })

const toApplyRequest = ({ request, isVersioned }: ResolvedChange, planDigest: string): ApiRequest => ({
  ...request,
  headers: {
    'Plan-Digest': digestOf(planDigest),
    ...(planDigest.includes(SEPARATOR) && { 'Idempotency-Key': `mcp-${planDigest}` }),
    // The digest holds the version. Some workspaces refuse a change without this header.
    ...(isVersioned && { 'If-Match': '*' }),
  },
})

function describeApplied({ change }: Change, reply: Body): Answer {
  // A redeploy answers with its revision, every other change with the deployment.
  const isRevision = reply.deployment_id !== undefined
  const data = isRevision
    ? { deployment_id: reply.deployment_id, revision_id: reply.id, number: reply.number, status: reply.status }
    : {
        deployment_id: reply.id,
        name: reply.name,
        status: reply.status,
        serving: reply.serving,
        revision_id: reply.latest_revision_id,
        url: reply.url,
      }
  return {
    summary: `Applied: ${change}. The revision is on its way: \`get_deployment\` shows how it goes.`,
    data,
    page: isRevision ? undefined : deploymentPage(reply),
  }
}

const INTERRUPT = 'POST /v2/deployments/{deployment_id}/revisions/{revision_id}/interruption'
const interruptRevision = tool({
  name: 'interrupt_revision',
  title: 'Interrupt a revision',
  description: 'Stops a revision that has not ended. The revision that waits behind it starts.',
  routes: [INTERRUPT],
  lookUps: REVISION_LOOK_UPS,
  own: z.object({ deployment: DeploymentArgument, revision: RevisionArgument }),
  isDestructive: true,
  run: async ({ deployment, revision }, _, context) => {
    const [path] = await findRevisions(context, deployment, [revision])
    await context.confirm(path, async () => `Interrupt revision ${revision} of ${deployment}?`)
    await context.api(INTERRUPT, { path })
    return { summary: 'Interrupted.', data: { ...path } }
  },
})

export const changeTools: Tool[] = [planChange, applyPlan, interruptRevision]
