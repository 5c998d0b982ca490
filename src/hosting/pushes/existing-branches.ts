// Previews of the branches that exist when a policy is set: as many as it has room for. The others get one with their
// next push.
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { createKeylessCaller } from '../../kernel/http/context.ts'
import { lockDeployment } from '../deployments/service.ts'
import type { Integration } from '../git-hosts/githost.ts'
import { previewCtx } from '../previews/preview-lifecycle.ts'
import type { PolicyRow } from '../previews/preview-policy.ts'
import { MAX_REPAIRS, type PreviewParent } from './compared-repository.ts'
import type { DeliveryContext } from './find-integration.ts'
import { findOfBranches } from './known-previews.ts'
import type { ExistingBranches } from './tables.ts'

type Existing = {
  context: DeliveryContext
  integration: Integration
  parent: PreviewParent
  /** The branches that the policy covers and that have no preview. */
  branches: string[]
  makePreview: (branch: string) => Promise<void>
}

/** Returns whether some are left for the next comparison. A crash repeats nothing: those that were made are known. */
export async function followExisting({ context, integration, parent, branches, makePreview }: Existing) {
  const { existing_branches: stored, room } = parent
  if (stored === null || stored.compared_at !== null) return false
  const { after, previews } = stored
  const waiting = branches.filter(branch => after === null || branch > after).sort()
  const chosen = waiting.slice(0, Math.min(room, MAX_REPAIRS))
  for (const branch of chosen) await makePreview(branch)
  const known = chosen.length === 0 ? [] : await findOfBranches(context.services, parent.id, chosen)
  const made = known.filter(({ number, state }) => number === null && state !== 'ended').length
  const progress = { ...stored, previews: previews + made, left: waiting.length - chosen.length }
  // A commit that asks for no preview takes no place.
  const isPartial = progress.left > 0 && room > made
  if (isPartial) await storeProgress(context, parent, { ...progress, after: chosen.at(-1)! })
  else await storeEnd(context, integration, parent, progress)
  return isPartial
}

/** Another policy may have been set meanwhile. */
const setExisting = ({ id, version }: PreviewParent, existing: ExistingBranches) => sql<PolicyRow>`
  update preview_policies p
  set existing_branches = ${JSON.stringify(existing)}::json
  where p.id = ${id}::uuid and p.version = ${version}`

async function storeProgress({ services }: DeliveryContext, parent: PreviewParent, progress: ExistingBranches) {
  await runAsSystem(services.database, setExisting(parent, progress))
}

async function storeEnd(
  { services, requestId, origin, request }: DeliveryContext,
  { organization_id: organization, tenant_id: tenant }: Integration,
  parent: PreviewParent,
  progress: ExistingBranches,
) {
  const actor = { kind: 'push', id: null, name: null, organization, tenant } as const
  const caller = createKeylessCaller(services, actor, requestId, origin, request)
  const compared_at = new Date(services.platform.clock.now()).toISOString()
  const change = sql<PolicyRow>`${setExisting(parent, { ...progress, compared_at, after: null })} returning p.*`
  const { previews, left } = progress
  await commit(
    previewCtx(caller),
    'preview_policy.applied',
    change,
    { previews, left },
    {
      lock: lockDeployment(parent.id),
    },
  )
}
