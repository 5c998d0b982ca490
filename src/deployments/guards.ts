// Guards that every change of what is wanted shares: the plan that it applies is fresh, and a tag is not built on push.
import { type SQL, sql } from 'drizzle-orm'
import type { Ctx } from '../kernel/context.ts'
import { refuseUnless } from '../kernel/db.ts'
import { fail } from '../kernel/errors.ts'
import { findPushFaults } from './source-rules.ts'

/** The digest of a plan names the version that it was made on and, after the dot, the request. */
export function isPlanFresh(ctx: Ctx, request: string): SQL {
  if (ctx.planDigest === null) return sql`true`
  const [version = '', planned] = ctx.planDigest.split('.')
  if (!/^\d{1,9}$/.test(version) || planned !== request) throw fail('plan_stale')
  return refuseUnless('plan_stale', sql`c.version = ${Number(version)}`)
}

export const describeFaults = (faults: { loc: (string | number)[]; msg: string }[]) =>
  faults.map(({ loc, msg }) => `${loc.slice(1).join('.')} ${msg}`).join('; ')

/** Given the two configurations as they will be. */
export const refuseTagOnPush = (config: SQL, madeFrom: SQL): SQL => {
  const [tagged] = findPushFaults({
    source_config: { build_on_push: true },
    source_revision_config: { repo_ref: 'refs/tags/' },
  })
  const push = sql`(${config} ->> 'build_on_push') = 'true'`
  const tag = sql`(${madeFrom} ->> 'repo_ref') like 'refs/tags/%'`
  return sql`case when ${push} and ${tag} then refuse('source_rule', ${describeFaults([tagged!])}) else true end`
}
