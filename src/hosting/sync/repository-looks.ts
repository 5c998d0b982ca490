// Repositories by SSH: agents get with a poll which to look at, and send what they saw. It becomes the refs that the
// comparison reads, and the state of the integration.
import { type SQL, sql } from 'drizzle-orm'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Row, run, runAsSystem } from '../../kernel/db/db.ts'
import { setSystemSettings } from '../../kernel/db/journal.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import type { RepositoryLook, SeenRepository } from '../../protocol/repository-looks.schema.ts'
import { openCredentials, sealCredentials } from '../git-hosts/credentials.ts'
import type { Integration } from '../git-hosts/githost.ts'
import { prepareChange } from '../git-hosts/integration-problems.ts'
import { applyLook, sshKeysOf } from '../git-hosts/ssh-access.ts'
import type { IntegrationProblem, SeenRefs, SshAccess } from '../git-hosts/tables.ts'
import type { Seal } from './envelope.ts'

/** By offer_looks(). */
export type StoredLook = { id: string; digest: string | null; integration: SshIntegration }
type SshIntegration = Integration & { ssh: SshAccess }
type StoredState = { seen: SeenRefs | null; look_failures: number }
type LookSubject = {
  repository: StoredState & { id: string; look_started_at: string }
  integration: SshIntegration
}

const INTERVAL = sql`interval '5 minutes' * (0.9 + 0.2 * random())`
const [FIRST_RETRY_S, MAX_RETRY_S] = [15, 300]

export async function toLook(
  { ctx, listener_id, seal }: { ctx: Ctx; listener_id: string; seal: Seal },
  { id, digest, integration }: StoredLook,
): Promise<RepositoryLook> {
  const credentials = await openCredentials(ctx.sealer, integration)
  const access = sshKeysOf(integration.ssh, credentials ?? {})
  return { id, url: integration.base_url, access: await seal(access, `${listener_id}/looks/${id}`), digest }
}

export const receiveLook = verb('listeners:sync', async (ctx, { agent_id, fence, ...look }: SeenRepository) => {
  const [row] = (await run(ctx, sql<Row>`select read_look(${agent_id}, ${fence}, ${look.id}::uuid)::text`)) as Row[]
  const subject = JSON.parse((row?.[0] as string | null) ?? 'null') as LookSubject | null
  if (!subject) return
  const seen = describeSeen(look, subject.repository.seen)
  // Without refs it says that nothing has changed, about others than are known now.
  if (!seen) return
  const integration = await changeIntegration(ctx, subject.integration, look)
  const settings = setSystemSettings(ctx.platform, ctx.requestId)
  await runAsSystem(ctx.database, settings, ...integration, storeSeen(subject.repository, seen))
  const compared = ctx.compareRepositories?.(subject.integration.id)
  if (compared) ctx.waitUntil?.(compared)
})

function describeSeen(
  { refs, default_branch = null, digest, is_cut, problem = null }: Omit<SeenRepository, 'agent_id' | 'fence'>,
  known: SeenRefs | null,
): SeenRefs | null {
  if (problem) return { ...(known ?? { refs: [], default_branch: null, digest: '' }), problem }
  if (!refs) return known && known.digest === digest ? { ...known, problem: null } : null
  const ownDigest = sha256Hex([default_branch ?? '', ...refs].join('\n'))
  return { refs, default_branch, digest: ownDigest, ...(is_cut && { is_cut }), problem: null }
}

/** A look that was asked for meanwhile stays due. Every look is compared with what is deployed. */
function storeSeen({ id, look_started_at, look_failures }: LookSubject['repository'], seen: SeenRefs): SQL {
  const failures = seen.problem ? look_failures + 1 : 0
  const pause = Math.min(MAX_RETRY_S, FIRST_RETRY_S * 2 ** Math.min(look_failures, 10))
  const next = seen.problem ? sql`${pause} * interval '1 second' * (0.9 + 0.2 * random())` : INTERVAL
  return sql`
    update followed_repositories f
    set
      seen = ${JSON.stringify(seen)}::json,
      seen_at = ${look_started_at}::timestamptz,
      look_failures = ${failures},
      look_at = case when f.look_at <= clock() then f.look_at else clock() + ${next} end,
      next_compare_at = least(f.next_compare_at, clock())
    where f.id = ${id}::uuid and coalesce(f.seen_at <= ${look_started_at}::timestamptz, true)`
}

/** Nothing where the look changes nothing of it. One that a person has changed meanwhile is left to the next look. */
async function changeIntegration(
  ctx: Ctx,
  row: SshIntegration,
  look: Pick<SeenRepository, 'host_key' | 'key_fingerprint' | 'problem'>,
): Promise<SQL[]> {
  const { ssh, problem, drops } = applyLook(row, look, new Date(ctx.platform.clock.now()).toISOString())
  if (JSON.stringify([ssh, problem]) === JSON.stringify([row.ssh, row.problem])) return []
  const credentials = (await openCredentials(ctx.sealer, row))!
  const kept = drops ? { ...credentials, deploy_keys: credentials.deploy_keys!.slice(1) } : credentials
  const sealed = drops ? await sealCredentials(ctx.sealer, row, kept) : row.credentials
  const { type, data } = describeEvent(row, { ssh, problem })
  return prepareChange(row.id, {
    set: sql`
      ssh = ${JSON.stringify(ssh)}::json,
      problem = ${problem && JSON.stringify(problem)}::json,
      credentials = ${sealed}`,
    condition: sql`i.version = ${row.version}`,
    type,
    data,
  })
}

type State = { ssh: SshAccess; problem: IntegrationProblem | null }
function describeEvent(before: State, { ssh, problem }: State): { type: string; data: Record<string, string> } {
  if (problem && problem !== before.problem)
    return { type: 'integration.limited', data: { work: problem.work, message: problem.message } }
  if (before.problem && !problem) return { type: 'integration.restored', data: { work: before.problem.work } }
  const isPinned = before.ssh.host_keys.length === 0 && ssh.host_keys.length > 0
  return { type: isPinned ? 'integration.host_key_pinned' : 'integration.verified', data: {} }
}
