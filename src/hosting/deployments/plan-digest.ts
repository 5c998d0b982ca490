// The digest of a plan: the write that sends it applies that plan or nothing.

import { sha256Hex } from '../../kernel/crypto/digest.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'

/**
 * A plan digest is `<version>.<digest of the request>`. The version is that of the deployment, 0 for a new one.
 * The request names the deployment: a plan that was shown for one must not be applied to another.
 */
export async function makePlanDigest(ctx: Ctx, version: number, request: object): Promise<string> {
  const [digest] = await digestRequest(ctx, request)
  return `${version}.${digest}`
}

/** Null without a `Plan-Digest`. */
export async function readPlannedVersion(ctx: Ctx, request: object): Promise<number | null> {
  if (ctx.planDigest === null) return null
  const [version = '', digest = ''] = ctx.planDigest.split('.')
  if (!/^\d{1,9}$/.test(version) || !(await digestRequest(ctx, request)).includes(digest)) throw fail('plan_stale')
  return Number(version)
}

/**
 * Computes a digest under each sealing key; that of the first is shown. A request can hold values of secrets, and
 * digests stand in the logs of builds: from a hash without a key, everybody who reads them could guess a weak value.
 */
async function digestRequest({ sealer, tenant }: Ctx, request: object): Promise<string[]> {
  const fingerprint = await sealer.fingerprinter('plan')
  const fingerprints = await fingerprint(JSON.stringify(request), tenant?.toLowerCase() ?? '')
  return fingerprints.map(one => sha256Hex(one).slice(0, 32))
}
