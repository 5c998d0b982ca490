// Sets which requests to a deployment become lines of its log. The router of its agent writes them.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import type { Row } from '../../kernel/db/db.ts'
import { describeWrite, runWrite } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import { listRequestLogNeeds } from '../../protocol/listener-policy.ts'
import type { NewRequestLogs } from '../../protocol/request-logs.schema.ts'
import { type DeploymentRow, deploymentToWire } from '../deployments/rows.ts'
import type { DeploymentRef } from '../deployments/schema.ts'

type Input = z.output<typeof DeploymentRef> & NewRequestLogs

export const setRequestLogs = verb('deployments:update', async (ctx, { deployment_id, ...logs }: Input) => {
  const statement = sql<Row>`
    select answer, has_webhooks
    from set_request_logs(
      ${deployment_id}::uuid,
      ${JSON.stringify(logs)}::json,
      ${JSON.stringify(listRequestLogNeeds(logs))}::jsonb,
      ${describeWrite(ctx)}::jsonb
    )`
  return deploymentToWire(requireRow(await runWrite<DeploymentRow>(ctx, statement), 'deployment_not_found'))
})
