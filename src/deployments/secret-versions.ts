// Versions of secrets: which of them a request keeps, and the sealed values of the others.
import { type SQL, sql } from 'drizzle-orm'
import type { Ctx } from '../kernel/context.ts'
import { isMasked } from './plan.ts'

type Secret = { name: string; value: string }
/** The fingerprints of the value; a mask has none. */
export type FingerprintedSecret = Secret & { fingerprints: string[] }

export async function fingerprintSecrets(
  { sealer }: Ctx,
  deployment: string,
  secrets: Secret[],
): Promise<FingerprintedSecret[]> {
  const fingerprint = secrets.every(isMasked) ? undefined : await sealer.fingerprinter(deployment)
  const fingerprintsOf = async (secret: Secret) =>
    fingerprint && !isMasked(secret) ? fingerprint(secret.value, secret.name) : []
  return Promise.all(secrets.map(async secret => ({ ...secret, fingerprints: await fingerprintsOf(secret) })))
}

/** Without values: the database compares fingerprints. */
const requestedSecrets = (secrets: FingerprintedSecret[]): SQL => {
  const items = secrets.map(secret => ({
    name: secret.name,
    masked: isMasked(secret),
    fingerprints: secret.fingerprints,
  }))
  return sql`rows from (
      jsonb_to_recordset(${JSON.stringify(items)}::jsonb) as (name text, masked boolean, fingerprints jsonb)
    ) with ordinality i(name, masked, fingerprints, place)`
}
const STORED_SECRETS = sql`jsonb_to_recordset(c.secrets::jsonb) k(name text, version integer)`

const IS_KEPT = sql`k.name is not null
      and (
        i.masked
        or exists (
          select from deployment_secrets s
          where s.deployment_id = c.id
            and s.name = k.name
            and s.version = k.version
            and i.fingerprints ? s.fingerprint))`

/**
 * Compares what is sent with the stored secrets of deployment `c`: `kept` has the names whose value stays. The version
 * of a new value is the number of the revision that brings it.
 */
export const compareSecrets = (secrets: FingerprintedSecret[]): SQL => sql`
  select
    coalesce(jsonb_agg(name) filter (where is_kept), '[]') as kept,
    not coalesce(bool_and(is_kept), true) or count(*) <> json_array_length(c.secrets) as has_changes,
    coalesce(
      jsonb_agg(
        jsonb_build_object('name', name, 'version', case when is_kept then version else c.revisions + 1 end)
        order by place
      ),
      '[]'
    ) as next
  from (
    select i.name, i.place, k.version, ${IS_KEPT} as is_kept
    from ${requestedSecrets(secrets)}
    left join ${STORED_SECRETS} on k.name = i.name) compared`

/** The masks that stand for no stored value. */
export const unknownMasks = (secrets: FingerprintedSecret[]): SQL => sql`(
    select string_agg(i.name, ', ')
    from ${requestedSecrets(secrets)}
    left join ${STORED_SECRETS} on k.name = i.name
    where i.masked and k.name is null)`

/**
 * Inserts the values that are new in this version of the deployment `changed`. They are sealed here, bound to the
 * deployment and their name, so that the database never sees one.
 */
export async function insertSecrets(
  { sealer }: Ctx,
  deployment: string,
  secrets: FingerprintedSecret[],
  version: SQL,
  condition: SQL = sql`true`,
): Promise<SQL> {
  const sealed = secrets.map(async ({ name, value, fingerprints: [fingerprint] }) => ({
    name,
    sealed: await sealer.seal(value, deployment, name),
    fingerprint,
  }))
  return sql`sealed as (
    insert into deployment_secrets (organization_id, tenant_id, deployment_id, name, version, sealed, fingerprint)
    select organization_id, tenant_id, id, s.name, ${version}, s.sealed, s.fingerprint
    from changed
    cross join json_to_recordset(changed.secrets) w(name text, version integer)
    join jsonb_to_recordset(${JSON.stringify(await Promise.all(sealed))}::jsonb)
      s(name text, sealed text, fingerprint text) on s.name = w.name
    where w.version = ${version} and ${condition})`
}
