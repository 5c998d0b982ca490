// The hosts at which a deployment is served.
import { type SQL, sql } from 'drizzle-orm'
import { deployments } from '../deployments/tables.ts'

export const OWN_LABELS = sql`host_labels h
        where h.deployment_id = ${deployments.id} and h.listener_id = ${deployments.listener_id}`

export const servesHost = (host: string): SQL => sql`
  lower(${host}) in (
    select lower(split_part(regexp_replace(u.address, '^https?://', ''), '/', 1))
    from unnest(array[url, local_url, source_config ->> 'custom_url']) u(address)
    union all
    select h.label || lower(regexp_replace(split_part(regexp_replace(url, '^https?://', ''), '/', 1), '^[^.]+', ''))
    from ${OWN_LABELS}
  )`
