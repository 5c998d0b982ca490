// The smallest agent that keeps the protocol: it downloads, opens secrets and reports, and runs nothing.
import { createDecipheriv, createECDH, createHash, hkdfSync, randomUUID } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { parseNetworks } from '../../../src/agent/builds/allowed-address.ts'
import { seeRepository } from '../../../src/agent/builds/repository-looks.ts'
import { hasSsh } from '../../../src/agent/builds/ssh-session.ts'
import { sources } from '../../../src/protocol/parts.schema.ts'
import type { Changes } from '../../../src/protocol/poll.schema.ts'
import type { Report, ReportResult } from '../../../src/protocol/report.schema.ts'
import type { RepositoryLook, SshKeys } from '../../../src/protocol/repository-looks.schema.ts'
import type { Tracing, Work } from '../../../src/protocol/work.schema.ts'

const { SLIPWAY_URL, SLIPWAY_LISTENER_KEY } = process.env
// A restart in the same folder keeps the id.
if (!existsSync('agent-id')) writeFileSync('agent-id', `fake-${randomUUID()}`)
const agent_id = readFileSync('agent-id', 'utf8')
const keyPair = createECDH('prime256v1')
const public_key = keyPair.generateKeys()
const sha256 = (data: string | Buffer) => createHash('sha256').update(data)

type Lease = { fence: number; stop: AbortController }
type KnownDeployment = { generation: number; rollout?: { id: string; stop: AbortController } }
let lease: Lease | null = null
let cursor: number | null = null
let listener = ''
const knownDeployments = new Map<string, KnownDeployment>()

/** Retries with backoff until there is an answer. */
async function call(path: string, body: object): Promise<{ status: number; body: unknown; wait: number }> {
  for (let pause = 50; ; pause = Math.min(pause * 2, 2000)) {
    try {
      const headers = { 'X-Api-Key': SLIPWAY_LISTENER_KEY!, 'Content-Type': 'application/json' }
      const agent = { agent_id, fence: lease?.fence ?? null }
      const answer = await fetch(SLIPWAY_URL + path, {
        method: 'POST',
        headers,
        body: JSON.stringify({ ...agent, ...body }),
      })
      const { status } = answer
      const reply = status === 204 ? null : await answer.json()
      if (status < 500 && status !== 429)
        return { status, body: reply, wait: Number(answer.headers.get('Retry-After') ?? 0) }
    } catch {}
    await delay(pause)
  }
}

/** Work that began under a lease must not continue without it. */
function stopActing(lost: Lease) {
  lost.stop.abort()
  for (const { rollout } of knownDeployments.values()) rollout?.stop.abort()
  knownDeployments.clear()
  if (lease === lost) [lease, cursor] = [null, null]
}

async function sendReport(heldLease: Lease, report: Report): Promise<ReportResult | undefined> {
  if (heldLease.stop.signal.aborted) return undefined
  const { status, body } = await call('/v1/sync/report', { fence: heldLease.fence, reports: [report] })
  if (status === 409) stopActing(heldLease)
  if (status !== 200) return undefined
  const [result] = (body as { results: ReportResult[] }).results
  const known = knownDeployments.get(report.deployment_id)
  if (result!.outcome !== 'accepted' || !known) return result
  if (result!.generation === null) knownDeployments.delete(report.deployment_id)
  else if (known.generation === report.generation) known.generation = result!.generation
  return result
}

const computeDigest = () => {
  let all = 0n
  for (const [id, { generation }] of knownDeployments) all ^= sha256(`${id}:${generation}`).digest().readBigUInt64BE()
  return all.toString(16).padStart(16, '0')
}

function openEnvelope<T>(envelope: string, context: string): T {
  const [, ephemeral, nonce, sealed] = envelope.split('.').map(part => Buffer.from(part, 'base64url')) as [
    Buffer,
    Buffer,
    Buffer,
    Buffer,
  ]
  const salt = Buffer.concat([ephemeral, public_key])
  const key = Buffer.from(hkdfSync('sha256', keyPair.computeSecret(ephemeral), salt, 'slipway sync v1', 32))
  const cipher = createDecipheriv('aes-256-gcm', key, nonce)
    .setAAD(Buffer.from(context))
    .setAuthTag(sealed.subarray(-16))
  return JSON.parse(cipher.update(sealed.subarray(0, -16), undefined, 'utf8') + cipher.final('utf8'))
}

/** Finds the owner of the token by which its application would call models. */
async function findTokenOwner({ fence }: Lease, deployment_id: string): Promise<string | undefined> {
  const wish = { fence, public_key: public_key.toString('base64url'), deployment_ids: [deployment_id] }
  const { status, body } = await call('/v1/sync/model-tokens', wish)
  const { tokens = null } = status === 200 ? (body as { tokens: string | null }) : {}
  if (tokens === null) return undefined
  const token = openEnvelope<Record<string, string>>(tokens, `${listener}/models`)[deployment_id]!
  return JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()).sub
}

/** Logs the digests of its secret and its trace key, as the kit's application does. */
async function rollOut(heldLease: Lease, work: Work, stop: AbortSignal) {
  const revision = work.revision!
  const reportState = (state: Report['state'], more: Partial<Report> = {}) => {
    stop.throwIfAborted()
    const about = { deployment_id: work.deployment_id, revision_id: revision.id }
    return sendReport(heldLease, { ...about, generation: work.generation, state, ...more })
  }
  await reportState('building')
  if (revision.archive) {
    const bytes = Buffer.from(await (await fetch(revision.archive.url)).arrayBuffer())
    if (sha256(bytes).digest('hex') !== revision.archive.sha256)
      return reportState('failed', { message: 'The SHA-256 of the archive does not match.' })
  }
  const seconds = Number(/^sleep (\d+)$/.exec(revision.build_command ?? '')?.[1] ?? 0)
  await delay(seconds * 1000, undefined, { signal: stop })
  await reportState('built')
  const placeOf = (what: string) => [listener, work.deployment_id, revision.id, what].join('/')
  const secrets = revision.secrets ? openEnvelope<Record<string, string>>(revision.secrets, placeOf('secrets')) : {}
  const tracing = revision.tracing ? openEnvelope<Tracing>(revision.tracing, placeOf('tracing')) : null
  const owner = await findTokenOwner(heldLease, work.deployment_id)
  const timestamp = new Date().toISOString()
  const lines = [
    `kit-secret ${sha256(secrets.TOKEN ?? '').digest('hex')}`,
    `kit-tracing ${sha256(tracing?.variables.LANGSMITH_API_KEY ?? '').digest('hex')}`,
    `kit-models ${owner}`,
  ].map(message => ({ timestamp, level: 'INFO', message }))
  const log = {
    deployment_id: work.deployment_id,
    revision_id: revision.id,
    kind: 'deploy',
    stream: randomUUID(),
    from: 0,
  }
  await call('/v1/sync/logs', { fence: heldLease.fence, ...log, lines })
  await reportState('deploying')
  await reportState('deployed', { healthy: true })
}

const reportUnreadable = (heldLease: Lease, { deployment_id, generation, revision }: Work) =>
  sendReport(heldLease, {
    deployment_id,
    revision_id: revision!.id,
    generation,
    state: 'failed',
    message: 'This agent cannot read the revision.',
  })

async function applyWork(heldLease: Lease, work: Work) {
  const known = knownDeployments.get(work.deployment_id)
  const current: KnownDeployment = { ...known, generation: work.generation }
  knownDeployments.set(work.deployment_id, current)
  const { rollout } = current
  if (rollout && rollout.id !== work.revision?.id) {
    rollout.stop.abort()
    delete current.rollout
  }
  const about = {
    deployment_id: work.deployment_id,
    revision_id: work.serving?.id ?? null,
    generation: work.generation,
  }
  // It reads a work of another source as far as this.
  const unreadable = [work.revision, work.serving].some(one => one && !sources.includes(one.source))
  if (unreadable && work.revision) return reportUnreadable(heldLease, work)
  if (unreadable) return
  if (work.wanted === 'absent') return sendReport(heldLease, { ...about, state: 'removed' })
  if (work.needs_database && !known)
    await sendReport(heldLease, { ...about, revision_id: null, state: 'database_ready' })
  // No DNS leads to the hosts of the kit.
  const custom_host = work.custom_url ? { host: work.custom_url, leads_here: false, reason: 'No record.' } : null
  const healthy = work.serving ? true : null
  if (!work.revision) return sendReport(heldLease, { ...about, state: 'serving', healthy, custom_host })
  if (current.rollout) return
  const stop = new AbortController()
  current.rollout = { id: work.revision.id, stop }
  rollOut(heldLease, work, stop.signal).catch(() => {})
}

async function lookAt({ fence, stop }: Lease, { id, url, access, digest }: RepositoryLook) {
  const keys = openEnvelope<SshKeys>(access, `${listener}/looks/${id}`)
  const around = { networks: parseNetworks('127.0.0.0/8'), path: PATH, signal: stop.signal }
  const { refs, ...seen } = await seeRepository(url, keys, around)
  await call('/v1/sync/repositories', { fence, id, ...seen, ...(seen.digest !== digest && { refs }) })
}

const { PATH = '' } = process.env
const features = (await hasSsh(PATH)) ? ['git_ssh'] : []
for (;;) {
  const isSettled = [...knownDeployments.values()].every(one => !one.rollout)
  const { status, body, wait } = await call('/v1/sync/poll', {
    public_key: public_key.toString('base64url'),
    version: 'fake',
    policy: { privileged: false, service_accounts: [], max_copies: null, features },
    cursor,
    digest: cursor === null ? null : computeDigest(),
    wait: isSettled ? 3 : 1,
  })
  if (status === 200) {
    const answer = body as Changes
    listener = answer.listener_id
    lease ??= { fence: answer.lease.fence, stop: new AbortController() }
    if (answer.resync) {
      // The kit's work fits on one page. A real agent collects the ids of all pages first.
      const ids = new Set(answer.changes.map(one => one.deployment_id))
      if (!answer.more) for (const id of knownDeployments.keys()) if (!ids.has(id)) knownDeployments.delete(id)
    }
    for (const look of answer.looks ?? []) void lookAt(lease, look)
    for (const work of answer.changes) await applyWork(lease, work)
    // Only now: an agent that ends before this line gets the same changes again.
    if (lease) cursor = answer.cursor
  } else if (status === 409) {
    if (lease) stopActing(lease)
    await delay(Math.min(wait, 1) * 1000 + 100)
  } else throw new Error(`The control plane answers ${status}: ${JSON.stringify(body)}`)
}
