// Guards that patches, redeploys and rollbacks share: the plan is fresh, and a tag is not built on push.
import { type SQL, sql } from 'drizzle-orm'
import type { Ctx } from '../kernel/context.ts'
import { refuseUnless } from '../kernel/db.ts'
import { sha256Hex } from '../kernel/digest.ts'
import { fail } from '../kernel/errors.ts'
import { findPushFaults } from './source-rules.ts'

/** A plan digest is `<version>.<digest of the request>`. The version is that of the deployment, 0 for a new one. */
export function isPlanFresh(ctx: Ctx, requestDigest: string): SQL {
  const version = readPlannedVersion(ctx, requestDigest)
  return version === null ? sql`true` : refuseUnless('plan_stale', sql`c.version = ${version}`)
}

/** Null without a `Plan-Digest`. */
export function readPlannedVersion({ planDigest }: Ctx, requestDigest: string): number | null {
  if (planDigest === null) return null
  const [version = '', digest] = planDigest.split('.')
  if (!/^\d{1,9}$/.test(version) || digest !== requestDigest) throw fail('plan_stale')
  return Number(version)
}

export const digestRequest = (request: object): string => sha256Hex(JSON.stringify(request)).slice(0, 32)

export const describeFaults = (faults: { loc: (string | number)[]; msg: string }[]) =>
  faults.map(({ loc, msg }) => `${loc.slice(1).join('.')} ${msg}`).join('; ')

/** The configurations as they will be. */
export const refuseTagOnPush = (config: SQL, revisionConfig: SQL): SQL => {
  const [fault] = findPushFaults({
    source_config: { build_on_push: true },
    source_revision_config: { repo_ref: 'refs/tags/' },
  })
  const push = sql`(${config} ->> 'build_on_push') = 'true'`
  const tag = sql`(${revisionConfig} ->> 'repo_ref') like 'refs/tags/%'`
  return sql`case when ${push} and ${tag} then refuse('source_rule', ${describeFaults([fault!])}) else true end`
}
