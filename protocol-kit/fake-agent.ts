// The smallest agent that keeps the protocol: it downloads, opens and reports as it should, and runs nothing.
import { createDecipheriv, createECDH, createHash, hkdfSync, randomUUID } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { Changes } from '../src/protocol/poll.schema.ts'
import type { Report, ReportResult } from '../src/protocol/report.schema.ts'
import type { Work } from '../src/protocol/work.schema.ts'

const { SLIPWAY_URL, SLIPWAY_LISTENER_KEY } = process.env
// The same after a restart, in the folder that it is started in.
if (!existsSync('agent-id')) writeFileSync('agent-id', `fake-${randomUUID()}`)
const agent_id = readFileSync('agent-id', 'utf8')
const keyPair = createECDH('prime256v1')
const public_key = keyPair.generateKeys()
const sha256 = (data: string | Buffer) => createHash('sha256').update(data)

type Lease = { fence: number; stop: AbortController }
type KnownDeployment = { generation: number; rollout?: { id: string; stop: AbortController }; told?: number }
let lease: Lease | null = null
let cursor: number | null = null
let listener = ''
const knownDeployments = new Map<string, KnownDeployment>()

/** Repeated until there is an answer, later and later. */
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
      if (status < 500 && status !== 429)
        return { status, body: await answer.json(), wait: Number(answer.headers.get('Retry-After') ?? 0) }
    } catch {}
    await delay(pause)
  }
}

/** Nothing that began under a lease goes on without it. */
function stopActing(ended: Lease) {
  ended.stop.abort()
  for (const { rollout } of knownDeployments.values()) rollout?.stop.abort()
  knownDeployments.clear()
  if (lease === ended) [lease, cursor] = [null, null]
}

async function sendReport(under: Lease, said: Report): Promise<ReportResult | undefined> {
  if (under.stop.signal.aborted) return undefined
  const { status, body } = await call('/v1/sync/report', { fence: under.fence, reports: [said] })
  if (status === 409) stopActing(under)
  if (status !== 200) return undefined
  const [result] = (body as { results: ReportResult[] }).results
  const known = knownDeployments.get(said.deployment_id)
  if (result!.outcome !== 'accepted' || !known) return result
  if (result!.generation === null) knownDeployments.delete(said.deployment_id)
  else if (known.generation === said.generation) known.generation = result!.generation
  return result
}

const computeDigest = () => {
  let all = 0n
  for (const [id, { generation }] of knownDeployments) all ^= sha256(`${id}:${generation}`).digest().readBigUInt64BE()
  return all.toString(16).padStart(16, '0')
}

function openEnvelope(envelope: string, place: string): Record<string, string> {
  const [, ephemeral, nonce, sealed] = envelope.split('.').map(part => Buffer.from(part, 'base64url')) as [
    Buffer,
    Buffer,
    Buffer,
    Buffer,
  ]
  const salt = Buffer.concat([ephemeral, public_key])
  const key = Buffer.from(hkdfSync('sha256', keyPair.computeSecret(ephemeral), salt, 'slipway sync v1', 32))
  const cipher = createDecipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(place)).setAuthTag(sealed.subarray(-16))
  return JSON.parse(cipher.update(sealed.subarray(0, -16), undefined, 'utf8') + cipher.final('utf8'))
}

/** One revision, from its source to its traffic; the kit's application would say what its secret is. */
async function rollOut(under: Lease, work: Work, stop: AbortSignal) {
  const revision = work.revision!
  const say = (state: Report['state'], more: Partial<Report> = {}) => {
    stop.throwIfAborted()
    const about = { deployment_id: work.deployment_id, revision_id: revision.id }
    return sendReport(under, { ...about, generation: work.generation, state, ...more })
  }
  await say('building')
  if (revision.archive) {
    const bytes = Buffer.from(await (await fetch(revision.archive.url)).arrayBuffer())
    if (sha256(bytes).digest('hex') !== revision.archive.sha256)
      return say('failed', { message: 'The archive is not what was announced.' })
  }
  const seconds = Number(/^sleep (\d+)$/.exec(revision.build_command ?? '')?.[1] ?? 0)
  await delay(seconds * 1000, undefined, { signal: stop })
  await say('built')
  const secrets = revision.secrets
    ? openEnvelope(revision.secrets, [listener, work.deployment_id, revision.id, 'secrets'].join('/'))
    : {}
  const message = `kit-secret ${sha256(secrets.TOKEN ?? '').digest('hex')}`
  const line = { timestamp: new Date().toISOString(), level: 'INFO', message }
  const log = {
    deployment_id: work.deployment_id,
    revision_id: revision.id,
    kind: 'deploy',
    stream: randomUUID(),
    from: 0,
  }
  await call('/v1/sync/logs', { fence: under.fence, ...log, lines: [line] })
  await say('deploying')
  await say('deployed', { healthy: true })
}

async function applyWork(under: Lease, work: Work) {
  const known = knownDeployments.get(work.deployment_id)
  const mine: KnownDeployment = { ...known, generation: work.generation }
  knownDeployments.set(work.deployment_id, mine)
  const { rollout } = mine
  if (rollout && rollout.id !== work.revision?.id) {
    rollout.stop.abort()
    delete mine.rollout
  }
  const about = {
    deployment_id: work.deployment_id,
    revision_id: work.serving?.id ?? null,
    generation: work.generation,
  }
  if (work.wanted === 'absent') return sendReport(under, { ...about, state: 'removed' })
  if (work.needs_database && !known) await sendReport(under, { ...about, revision_id: null, state: 'database_ready' })
  if (!work.revision) return sendReport(under, { ...about, state: 'serving', healthy: work.serving ? true : null })
  if (mine.rollout) return
  const stop = new AbortController()
  mine.rollout = { id: work.revision.id, stop }
  rollOut(under, work, stop.signal).catch(() => {})
}

for (;;) {
  const settled = [...knownDeployments.values()].every(one => !one.rollout)
  const { status, body, wait } = await call('/v1/sync/poll', {
    ...{
      public_key: public_key.toString('base64url'),
      version: 'fake',
      cursor,
      digest: cursor === null ? null : computeDigest(),
    },
    wait: settled ? 3 : 1,
  })
  if (status === 200) {
    const answer = body as Changes
    listener = answer.listener_id
    lease ??= { fence: answer.lease.fence, stop: new AbortController() }
    if (answer.resync) {
      // The kit's own lists fit on one page; a larger agent gathers the names over all pages first.
      const named = new Set(answer.changes.map(one => one.deployment_id))
      if (!answer.more) for (const id of knownDeployments.keys()) if (!named.has(id)) knownDeployments.delete(id)
    }
    for (const work of answer.changes) await applyWork(lease, work)
    // Not before: whoever ends in between is told again.
    if (lease) cursor = answer.cursor
  } else if (status === 409) {
    if (lease) stopActing(lease)
    await delay(Math.min(wait, 1) * 1000 + 100)
  } else throw new Error(`The control plane answers ${status}: ${JSON.stringify(body)}`)
}
