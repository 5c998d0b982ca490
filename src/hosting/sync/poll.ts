// Answers an agent's poll: what changed since its cursor, under a lease. Waiting holds no connection.
import { type SQL, sql } from 'drizzle-orm'
import { modelProxyUrl } from '../../kernel/crypto/model-tokens.ts'
import { type Row, run } from '../../kernel/db/db.ts'
import { agentDailyLimit } from '../../kernel/db/journal.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, pauseWhileConnected, verb } from '../../kernel/http/context.ts'
import type { JobWork } from '../../protocol/jobs.schema.ts'
import { type Changes, POLL_PAGE_SIZE, type Poll } from '../../protocol/poll.schema.ts'
import { LOOKS_PER_POLL } from '../../protocol/repository-looks.schema.ts'
import { grantIssuer } from '../protection/grants.ts'
import { type StoredDrains, toOfferedDrains } from './drains.ts'
import { createSeal, type Seal } from './envelope.ts'
import { acquireLease, type LeaseHolder, requireLease } from './lease.ts'
import { type StoredLook, toLook } from './repository-looks.ts'
import { type StoredWork, toWork } from './work.ts'

/** An agent that joins all of them polls again. */
const TUNNELS_PER_POLL = 20

const [MIN_DELAY_MS, MAX_DELAY_MS] = [250, 2000]

export const poll = verb('listeners:sync', async (ctx, input: Poll): Promise<Changes> => {
  const seal = await createSeal(input.public_key)
  const end = Date.now() + input.wait * 1000
  let changes = await fetchChanges(ctx, seal, input, acquireLease(input))
  const lease = { agent_id: input.agent_id, fence: changes.lease.fence }
  for (let delay = MIN_DELAY_MS; isIdle(changes); delay = Math.min(delay * 2, MAX_DELAY_MS)) {
    const left = end - Date.now()
    if (left <= 0 || !(await pauseWhileConnected(ctx, Math.min(delay, left)))) break
    const [latest, isAwaited] = requireRow(await run(ctx, selectLatestChange(lease)), 'listener_not_found')
    if (Number(latest) === changes.cursor && !isAwaited) continue
    // The digest was compared already. The lease is not renewed: the agent may have died during the
    // wait, which not every host notices.
    changes = await fetchChanges(ctx, seal, { ...input, digest: null }, requireLease(lease))
  }
  return changes
})

const isIdle = ({ changes, jobs, resync, tunnels, looks, drains }: Changes) =>
  changes.length === 0 && !jobs?.length && !resync && !tunnels?.length && !looks?.length && !drains

const selectLatestChange = ({ agent_id, fence }: LeaseHolder) =>
  sql<[string, boolean]>`
    select latest_change(${agent_id}, ${fence}), exists (
      select from tunnels w
      where w.listener_id = current_listener() and w.ended_at is null and is_tunnel_waiting(w)
    ) or has_due_look()`

type ChangesRow = [
  listener_id: string,
  fence: string,
  expires: string,
  keep_unknown: boolean,
  latest: string,
  digest: string,
  resync: boolean,
  more: boolean,
  changes: string,
  jobs: string,
  jobsReached: string,
  tunnels: string,
  looks: string,
  drains: string | null,
]

/** `lease` returns the listener's row, locked. */
async function fetchChanges(ctx: Ctx, seal: Seal, input: Poll, lease: SQL): Promise<Changes> {
  const { cursor = null, digest = null, control_plane_url = ctx.origin, version } = input
  const rows = await run(
    ctx,
    sql<Row>`
      select l.id, l.fence, l.lease_expires_at, l.holds_removals_since is not null, c.*, j.*,
        offer_tunnels(${TUNNELS_PER_POLL}), o.looks, offer_drains(l, ${input.drains ?? null})
      from ${lease} l
      cross join lateral (
        select offer_looks(l, ${LOOKS_PER_POLL}, ${agentDailyLimit(ctx)}) as looks offset 0
      ) o
      -- After the looks, because it locks cursors, and events come before those.
      cross join lateral read_changes(
        l,
        case when o.looks is not null then ${cursor}::bigint end,
        ${digest},
        ${POLL_PAGE_SIZE},
        ${agentDailyLimit(ctx)}
      ) c
      cross join read_jobs(l, ${cursor}, c.resync, c.latest, ${POLL_PAGE_SIZE}) j`,
  )
  const row = requireRow(rows, 'listener_not_found') as ChangesRow
  const [listener_id, fence, expires, keep_unknown, latest, digestNow, resync, hasMoreWork, changes] = row
  const [jobs, jobsReached, waiting, dueLooks, offered] = row.slice(9) as [
    string,
    string,
    string,
    string,
    string | null,
  ]
  const tunnels = JSON.parse(waiting) as Changes['tunnels'] & object
  const looks = JSON.parse(dueLooks) as StoredLook[]
  const stored = JSON.parse(changes) as StoredWork[]
  // Work or jobs beyond the cursor come again.
  const reached = Math.min(hasMoreWork ? stored.at(-1)!.seq : Number(latest), Number(jobsReached))
  const tracesUrl = ctx.config.deploymentTracing ? control_plane_url : null
  const context = { ctx, listener_id, seal, tracesUrl, version }
  const drains = await toOfferedDrains(context, JSON.parse(offered ?? 'null') as StoredDrains | null)
  return {
    listener_id,
    lease: { fence: Number(fence), expires_at: toIsoTime(expires) },
    cursor: reached,
    digest: digestNow,
    resync,
    keep_unknown,
    models_url: ctx.config.deploymentModels && control_plane_url ? modelProxyUrl(control_plane_url) : null,
    more: reached < Number(latest),
    grants: await grantIssuer(ctx),
    jobs: JSON.parse(jobs) as JobWork[],
    ...(tunnels.length > 0 && { tunnels }),
    ...(drains && { drains }),
    ...(looks.length > 0 && { looks: await Promise.all(looks.map(look => toLook(context, look))) }),
    changes: await Promise.all(stored.map(work => toWork(context, work))),
  }
}
