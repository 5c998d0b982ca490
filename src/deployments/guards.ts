// Guards that patches, redeploys and rollbacks share: the plan is fresh, and a tag is not built on push.
import { type SQL, sql } from 'drizzle-orm'
import type { Ctx } from '../kernel/context.ts'
import { refuseUnless } from '../kernel/db.ts'
import { fail } from '../kernel/errors.ts'
import { findPushFaults } from './source-rules.ts'

/** A plan digest is `<version>.<digest of the request>`. */
export function isPlanFresh(ctx: Ctx, requestDigest: string): SQL {
  if (ctx.planDigest === null) return sql`true`
  const [version = '', digest] = ctx.planDigest.split('.')
  if (!/^\d{1,9}$/.test(version) || digest !== requestDigest) throw fail('plan_stale')
  return refuseUnless('plan_stale', sql`c.version = ${Number(version)}`)
}

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
