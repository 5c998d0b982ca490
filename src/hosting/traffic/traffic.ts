// Splits the traffic of a deployment between two revisions. The router of its agent does it.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import type { Row } from '../../kernel/db/db.ts'
import { describeWrite, runWrite } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import { listTrafficNeeds } from '../../protocol/listener-policy.ts'
import type { NewTraffic } from '../../protocol/traffic.schema.ts'
import { type DeploymentRow, deploymentToWire } from '../deployments/rows.ts'
import type { DeploymentRef } from '../deployments/schema.ts'

type Input = z.output<typeof DeploymentRef> & NewTraffic

export const setTraffic = verb('deployments:update', async (ctx, { deployment_id, ...traffic }: Input) => {
  const statement = sql<Row>`
    select answer, has_webhooks
    from set_deployment_traffic(
      ${deployment_id}::uuid,
      ${JSON.stringify(traffic)}::jsonb,
      ${JSON.stringify(listTrafficNeeds(traffic))}::jsonb,
      ${describeWrite(ctx)}::jsonb
    )`
  return deploymentToWire(requireRow(await runWrite<DeploymentRow>(ctx, statement), 'deployment_not_found'))
})
