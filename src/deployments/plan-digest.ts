// The digest of a plan: the write that sends it applies that plan or nothing.
import type { Ctx } from '../kernel/context.ts'
import { sha256Hex } from '../kernel/digest.ts'
import { fail } from '../kernel/errors.ts'

/**
 * A plan digest is `<version>.<digest of the request>`. The version is that of the deployment, 0 for a new one. Null
 * without a `Plan-Digest`.
 */
export function readPlannedVersion({ planDigest }: Ctx, requestDigest: string): number | null {
  if (planDigest === null) return null
  const [version = '', digest] = planDigest.split('.')
  if (!/^\d{1,9}$/.test(version) || digest !== requestDigest) throw fail('plan_stale')
  return Number(version)
}

export const digestRequest = (request: object): string => sha256Hex(JSON.stringify(request)).slice(0, 32)
