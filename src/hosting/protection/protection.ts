// Sets who may see a deployment. The router of its agent enforces it.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import type { Row } from '../../kernel/db/db.ts'
import { describeWrite, runWrite } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import { listProtectionNeeds } from '../../protocol/listener-policy.ts'
import { type NewProtection, toStored } from '../../protocol/protection.schema.ts'
import { type DeploymentRow, deploymentToWire } from '../deployments/rows.ts'
import type { DeploymentRef } from '../deployments/schema.ts'

type Input = z.output<typeof DeploymentRef> & NewProtection

export const setProtection = verb('deployments:update', async (ctx, { deployment_id, ...protection }: Input) => {
  const stored = toStored(protection)
  const statement = sql<Row>`
    select answer, has_webhooks
    from set_deployment_protection(
      ${deployment_id}::uuid,
      ${stored && JSON.stringify(stored)}::json,
      ${JSON.stringify(listProtectionNeeds('protection', protection))}::jsonb,
      ${describeWrite(ctx)}::jsonb
    )`
  return deploymentToWire(requireRow(await runWrite<DeploymentRow>(ctx, statement), 'deployment_not_found'))
})
