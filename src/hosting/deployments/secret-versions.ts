// Secrets of a request: their fingerprints, by which compare_secrets() recognizes stored values, and their sealing.
import { type SQL, sql } from 'drizzle-orm'
import type { Ctx } from '../../kernel/http/context.ts'
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

/** Sealed here, bound to the deployment and their name, so that the database never sees a value. */
export const sealSecret = async ({ sealer }: Ctx, deployment: string, secret: FingerprintedSecret) => ({
  ...secret,
  sealed: await sealer.seal(secret.value, deployment, secret.name),
})

/** Inserts the first values of the deployment `changed`. */
export async function insertSecrets(ctx: Ctx, deployment: string, secrets: Secret[]): Promise<SQL> {
  const fingerprinted = await fingerprintSecrets(ctx, deployment, secrets)
  const sealed = await Promise.all(fingerprinted.map(secret => sealSecret(ctx, deployment, secret)))
  const rows = sealed.map(({ name, sealed, fingerprints: [fingerprint] }) => ({ name, sealed, fingerprint }))
  return sql`sealed as (
    insert into deployment_secrets (organization_id, tenant_id, deployment_id, name, version, sealed, fingerprint)
    select organization_id, tenant_id, id, s.name, 1, s.sealed, s.fingerprint
    from changed
    cross join jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) s(name text, sealed text, fingerprint text))`
}
