// Reveals the secrets of a deployment to a key with `secrets:read`, and journals it.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { createApplicationKey } from '../../kernel/crypto/application-keys.ts'
import { requirePermission, textArray } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { type DeploymentRow, deploymentToWire } from './rows.ts'
import type * as schema from './schema.ts'

type RevealRow = DeploymentRow & {
  sealed_secrets: { name: string; sealed: string }[]
  trace_key_version: number
  serves_graphs: boolean
}

/** A secret of this name replaces the key that is derived for the deployment. */
const OWN_KEY = 'GRAPHS_API_KEY'

/** One statement reads the values and writes the event: no value leaves without an event. */
export const revealDeployment = verb(
  'secrets:read',
  async (
    ctx,
    { deployment_id, reveal_only }: z.output<typeof schema.DeploymentRef> & z.output<typeof schema.RevealQuery>,
  ) => {
    const query = sql<RevealRow>`
      select d.*, array(
        select json_build_object('name', s.name, 'sealed', s.sealed)
        from rows from (json_to_recordset(d.secrets) as (name text, version integer))
          with ordinality wanted(name, version, place)
        join deployment_secrets s on s.deployment_id = d.id and s.name = wanted.name and s.version = wanted.version
        where ${reveal_only ? sql`s.name = any(${textArray(reveal_only)})` : sql`true`}
        order by wanted.place) as sealed_secrets,
        exists(
          select from revisions r
          where r.deployment_id = d.id
            and r.id in (d.active_revision_id, d.latest_revision_id)
            and r.build_plan ->> 'kind' = 'graphs'
        ) as serves_graphs
      from deployments d
      where d.id = ${deployment_id}::uuid
        and d.tenant_id = current_tenant()
        and ${requirePermission('deployments:read')}`
    const data = reveal_only ? { names: reveal_only } : {}
    const row = requireRow(await commit(ctx, 'deployment.secrets_revealed', query, data), 'deployment_not_found')
    const opened = await Promise.all(
      row.sealed_secrets.map(
        async ({ name, sealed }) => [name, await ctx.sealer.open(sealed, deployment_id, name)] as const,
      ),
    )
    const values = new Map(opened)
    // There is no ETag: that names the masked representation.
    const { [etagVersion]: _, ...masked } = deploymentToWire(row)
    const secrets = masked.secrets.map(({ name, value }) => ({ name, value: values.get(name) ?? value }))
    if (!row.serves_graphs || reveal_only?.includes(OWN_KEY) === false) return { ...masked, secrets }
    const version = row.trace_key_version
    const key = values.get(OWN_KEY) ?? (await createApplicationKey(ctx.config, { deployment_id, version }))
    // An empty key of its own opens the application to everyone.
    return { ...masked, secrets, ...(key !== '' && { application_key: key }) }
  },
)
