// SQL of what the agent of a listener has told, for plans.
import { type Column, type SQL, sql } from 'drizzle-orm'
import type { Source } from '../../protocol/parts.schema.ts'

/** The policy of a listener's agent, as text; null if the agent has sent none. */
export const listenerPolicy = (listener: SQL | Column) =>
  sql<string | null>`(select l.policy::text from listeners l where l.id = ${listener})`

/** False if no listener that require_listener_allows() asks runs images, null if one may. */
export const runsImages = (listener: SQL) => sql<boolean | null>`(
  select case
    when bool_and(coalesce(not f.features @> '"images"', false)) then false
    when bool_or(f.features @> '"images"') then true
  end
  from listeners l
  cross join lateral (select nullif((l.policy -> 'features')::jsonb, 'null') as features) f
  where (l.id = ${listener} and (l.tenant_id = current_tenant() or l.tenant_id is null))
    or (${listener} is null and l.tenant_id is null)
)`

/** Templates are started as they are. */
export const runsImagesOf = (source: Source, runs_images: boolean | null) =>
  source === 'internal_template' ? {} : { runs_images }
