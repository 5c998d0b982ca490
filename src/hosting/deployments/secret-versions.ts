// Secrets of a request: their fingerprints, by which compare_secrets() recognizes stored values, and their sealing.
import type { Ctx } from '../../kernel/http/context.ts'
import { isMasked } from './plan.ts'

type Secret = { name: string; value: string }
/** The fingerprints of the value; a mask has none. */
export type FingerprintedSecret = Secret & { fingerprints: string[] }
export type SealedSecret = { name: string; sealed: string; fingerprints: string[] }

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

/** Binds the sealed value to the deployment and the name. The database never sees the value. */
export const sealSecret = async ({ sealer }: Ctx, deployment: string, secret: FingerprintedSecret) => ({
  ...secret,
  sealed: await sealer.seal(secret.value, deployment, secret.name),
})

/** Seals the first values of a new deployment. */
export async function sealSecrets(ctx: Ctx, deployment: string, secrets: Secret[]): Promise<SealedSecret[]> {
  const fingerprinted = await fingerprintSecrets(ctx, deployment, secrets)
  return Promise.all(
    fingerprinted.map(async secret => {
      const { value: _, ...sealed } = await sealSecret(ctx, deployment, secret)
      return sealed
    }),
  )
}
