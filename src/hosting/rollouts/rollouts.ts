// Sets the rollout policy of a deployment, and moves the rollout of its revision in flight.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import type { Row } from '../../kernel/db/db.ts'
import { describeWrite, runWrite } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { requireAllowedUrl } from '../../kernel/http/guarded-fetch.ts'
import { listRolloutNeeds } from '../../protocol/listener-policy.ts'
import { MASK } from '../../protocol/parts.schema.ts'
import type { NewRollout, RolloutAction, StoredRollout } from '../../protocol/rollout.schema.ts'
import { type DeploymentRow, deploymentToWire } from '../deployments/rows.ts'
import type { DeploymentRef } from '../deployments/schema.ts'

/** The secret of the webhook is sealed for the deployment, in a context that no name of a variable can equal. */
export const ROLLOUT_SEAL_CONTEXT = 'rollout webhook'

type Ref = z.output<typeof DeploymentRef>

async function write(ctx: Ctx, call: SQL) {
  const statement = sql<Row>`select answer, has_webhooks from ${call}`
  return deploymentToWire(requireRow(await runWrite<DeploymentRow>(ctx, statement), 'deployment_not_found'))
}

export const setRollout = verb('deployments:update', async (ctx, input: Ref & NewRollout) => {
  const { deployment_id, steps, gates } = input
  const { webhook } = gates
  if (webhook) requireAllowedUrl(ctx.config, ctx.origin, webhook.url)
  const stored: StoredRollout = { steps, gates: { ...gates, webhook: webhook && { url: webhook.url } } }
  const secret = webhook?.secret ?? null
  const sealed =
    secret === null || secret === MASK ? null : await ctx.sealer.seal(secret, deployment_id, ROLLOUT_SEAL_CONTEXT)
  return write(
    ctx,
    sql`set_rollout(
      ${deployment_id}::uuid,
      ${JSON.stringify(stored)}::json,
      ${sealed},
      ${secret === MASK},
      ${JSON.stringify(listRolloutNeeds(input))}::jsonb,
      ${describeWrite(ctx)}::jsonb
    )`,
  )
})

export const removeRollout = verb('deployments:update', async (ctx, { deployment_id }: Ref) =>
  write(ctx, sql`set_rollout(${deployment_id}::uuid, null, null, false, '[]', ${describeWrite(ctx)}::jsonb)`),
)

const ABORTED = 'Its rollout was aborted: all traffic went back to the revision that serves.'

export const moveRollout = verb(
  'deployments:update',
  async (ctx, { deployment_id, action }: Ref & { action: RolloutAction }) =>
    write(ctx, sql`move_rollout(${deployment_id}::uuid, ${action}, ${ABORTED}, ${describeWrite(ctx)}::jsonb)`),
)
