// A small control plane that implements PROTOCOL.md for one agent. A test sets the work and reads the reports.
import { createCipheriv, createECDH, createHash, hkdfSync, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import type * as z from 'zod'
import { CredentialWish } from '../../src/protocol/credentials.schema.ts'
import { type JobReport, JobReports, type JobWork } from '../../src/protocol/jobs.schema.ts'
import { LogBatch } from '../../src/protocol/logs.schema.ts'
import { ModelTokenWish } from '../../src/protocol/model-tokens.schema.ts'
import { Poll, Release } from '../../src/protocol/poll.schema.ts'
import { type Report, type ReportResult, Reports } from '../../src/protocol/report.schema.ts'
import { withDefaults } from '../../src/protocol/resources.schema.ts'
import { type HeldSnapshot, HeldSnapshots } from '../../src/protocol/snapshots.schema.ts'
import type { RevisionWork, Work } from '../../src/protocol/work.schema.ts'

export type ControlPlane = Awaited<ReturnType<typeof startControlPlane>>
type WantedWork = { work: Work; changedAt: number; secrets: Map<string, object> }

export async function startControlPlane() {
  const listener_id = randomUUID()
  const workByDeployment = new Map<string, WantedWork>()
  const reports: Report[] = []
  const jobs = new Map<string, { work: JobWork; changedAt: number }>()
  const jobReports: JobReport[] = []
  const logs: { of: string; kind: string; message: string }[] = []
  const streams = new Map<string, number>()
  let lease = { agent: '', fence: 0 }
  let lastChange = 0
  let isOffline = false
  let wake: () => void = () => {}
  const resyncs = { count: 0 }
  /** `onReport` runs before a report is applied. Reports of the unreadable deployment are rejected. */
  const faults = {
    hidesChanges: false,
    /** Control planes of earlier releases do so. */
    hidesJobs: false,
    keepsUnknown: false,
    onReport: (_: Report) => {},
    unreadableDeployment: '',
  }

  const recordChange = (one: WantedWork) => {
    one.work = { ...one.work, generation: one.work.generation + 1 }
    one.changedAt = ++lastChange
    wake()
  }
  const digest = () => {
    let all = 0n
    for (const [id, { work }] of workByDeployment)
      all ^= createHash('sha256').update(`${id}:${work.generation}`).digest().readBigUInt64BE()
    return all.toString(16).padStart(16, '0')
  }
  const sealWork = ({ work, secrets }: WantedWork, key: string): Work => {
    const sealRevision = (revision: RevisionWork | null) =>
      revision && {
        ...revision,
        secrets: sealSecrets(
          secrets.get(revision.id) ?? {},
          key,
          `${listener_id}/${work.deployment_id}/${revision.id}/secrets`,
        ),
      }
    return { ...work, revision: sealRevision(work.revision), serving: sealRevision(work.serving) }
  }

  async function poll(body: z.output<typeof Poll>) {
    if (body.fence == null) {
      if (lease.agent && lease.agent !== body.agent_id)
        return [409, { code: 'lease_held', detail: 'Held.' }, { 'Retry-After': '1' }]
      lease = { agent: body.agent_id, fence: lease.fence + 1 }
    } else if (body.fence !== lease.fence) return [409, { code: 'fence_stale', detail: 'Stale.' }]
    const { fence } = lease
    const isDigestWrong = body.digest != null && body.digest !== digest()
    const resync = body.cursor == null || (body.cursor === lastChange && isDigestWrong)
    if (resync) resyncs.count++
    const listChanges = () =>
      faults.hidesChanges
        ? []
        : [...workByDeployment.values()]
            .filter(one => resync || one.changedAt > body.cursor!)
            .sort((a, b) => a.changedAt - b.changedAt)
    const deadline = Date.now() + body.wait * 1000
    const { keepsUnknown } = faults
    const isSame = () => !isOffline && lease.fence === fence && faults.keepsUnknown === keepsUnknown
    const listJobs = () => [...jobs.values()].filter(one => resync || one.changedAt > body.cursor!)
    while (listChanges().length + listJobs().length === 0 && !resync && Date.now() < deadline && isSame()) {
      const woken = Promise.withResolvers<void>()
      wake = woken.resolve
      const timer = setTimeout(woken.resolve, Math.min(deadline - Date.now(), 1000))
      await woken.promise
      clearTimeout(timer)
    }
    if (lease.fence !== fence) return [409, { code: 'fence_stale', detail: 'Stale.' }]
    const changes = listChanges().map(one => sealWork(one, body.public_key))
    const expires_at = new Date(Date.now() + 60_000).toISOString()
    return [
      200,
      {
        listener_id,
        lease: { fence, expires_at },
        // Otherwise the agent would notice the hidden change by its digest.
        cursor: faults.hidesChanges ? (body.cursor ?? lastChange) : lastChange,
        digest: digest(),
        resync,
        keep_unknown: faults.keepsUnknown,
        ...(models.url && { models_url: models.url }),
        more: false,
        changes,
        ...(!faults.hidesJobs && { jobs: listJobs().map(one => one.work) }),
      },
    ]
  }

  function release({ agent_id, fence }: Release) {
    if (fence !== lease.fence || ![agent_id, ''].includes(lease.agent))
      return [409, { code: 'fence_stale', detail: 'Stale.' }]
    lease = { agent: '', fence }
    return [204]
  }

  function report(body: z.output<typeof Reports>) {
    if (body.fence !== lease.fence) return [409, { code: 'fence_stale', detail: 'Stale.' }]
    if (body.reports.some(one => one.deployment_id === faults.unreadableDeployment))
      return [422, { code: 'invalid_request', detail: 'The request is invalid.' }]
    const results = body.reports.map((one): ReportResult => {
      faults.onReport(one)
      const known = workByDeployment.get(one.deployment_id)
      const about = { deployment_id: one.deployment_id, revision_id: one.revision_id ?? null }
      if (!known) return { ...about, outcome: 'refused', code: 'deployment_unknown', generation: null }
      const { work } = known
      const isInFlight = one.revision_id === work.revision?.id && one.state !== 'serving'
      if (one.generation !== work.generation && !isInFlight)
        return { ...about, outcome: 'stale', code: 'generation_passed', generation: work.generation }
      reports.push(one)
      if (one.state === 'deployed')
        known.work = { ...work, serving: work.revision, revision: null, generation: work.generation + 1 }
      if (one.state === 'failed') known.work = { ...work, revision: null, generation: work.generation + 1 }
      if (one.state === 'removed') {
        workByDeployment.delete(one.deployment_id)
        return { ...about, outcome: 'accepted', code: null, generation: null }
      }
      return { ...about, outcome: 'accepted', code: null, generation: known.work.generation }
    })
    return [200, { results }]
  }

  /** The credential of every repository. */
  const credential = { username: 'x-access-token', password: 'hush-clone' }
  /** `left` more requests for credentials are refused; `count` have been. */
  const credentialRefusals = { status: 503, code: 'database_unavailable', left: 0, count: 0 }
  function issueCredential({
    fence,
    public_key,
    deployment_id,
    revision_id,
    ...wish
  }: z.output<typeof CredentialWish>) {
    if (fence !== lease.fence) return [409, { code: 'fence_stale', detail: 'Stale.' }]
    // There is no registry.
    if (wish.for === 'registry') return [200, { credential: null }]
    if (credentialRefusals.left-- > 0 && ++credentialRefusals.count)
      return [credentialRefusals.status, { code: credentialRefusals.code, detail: `It is ${credentialRefusals.code}.` }]
    return [
      200,
      { credential: sealSecrets(credential, public_key, `${listener_id}/${deployment_id}/${revision_id}/git`) },
    ]
  }

  /** `url` is undefined in control planes of earlier versions. `left` more requests for tokens fail. */
  const models = { url: undefined as string | undefined, left: 0, requests: [] as (string[] | undefined)[] }
  const modelTokens = new Map<string, string>()
  function issueModelTokens({ fence, public_key, deployment_ids }: z.output<typeof ModelTokenWish>) {
    if (fence !== lease.fence) return [409, { code: 'fence_stale', detail: 'Stale.' }]
    if (models.left-- > 0) return [503, { code: 'database_unavailable', detail: 'It is unavailable.' }]
    models.requests.push(deployment_ids ?? undefined)
    const tokens: Record<string, string> = {}
    for (const id of workByDeployment.keys())
      if (deployment_ids?.includes(id) ?? true) {
        const token = ['eyJ', randomUUID(), randomBytes(64).toString('base64url')].join('.')
        modelTokens.set(id, token)
        tokens[id] = token
      }
    const expires_at = new Date(Date.now() + 900_000).toISOString()
    return [200, { tokens: sealSecrets(tokens, public_key, `${listener_id}/models`), expires_at, next: null }]
  }

  function reportJobs({ fence, reports: sent }: z.output<typeof JobReports>) {
    if (fence !== lease.fence) return [409, { code: 'fence_stale', detail: 'Stale.' }]
    const results = sent.map(({ job_id, ...report }) => {
      const known = jobs.get(job_id)
      if (!known) return { job_id, accepted: false, code: 'job_ended' }
      jobReports.push({ job_id, ...report })
      if (report.state === 'running') known.work = { ...known.work, status: 'RUNNING' }
      else jobs.delete(job_id)
      return { job_id, accepted: true, code: null }
    })
    return [200, { results }]
  }

  /** All that the agent has told, by id. `deleted`: those that a user deletes. */
  const snapshots = { held: new Map<string, HeldSnapshot>(), deleted: new Set<string>() }
  function receiveSnapshots({ fence, held, after, until }: z.output<typeof HeldSnapshots>) {
    if (fence !== lease.fence) return [409, { code: 'fence_stale', detail: 'Stale.' }]
    for (const id of [...snapshots.held.keys()])
      if ((after == null || id > after) && (until == null || id <= until)) snapshots.held.delete(id)
    for (const one of held) if (!snapshots.deleted.has(one.id)) snapshots.held.set(one.id, one)
    return [200, { forget: held.map(({ id }) => id).filter(id => snapshots.deleted.has(id)) }]
  }

  function log(body: z.output<typeof LogBatch>) {
    const next = streams.get(body.stream) ?? 0
    const newLines = body.lines.slice(Math.max(0, next - body.from))
    for (const { message } of newLines) logs.push({ of: body.job_id ?? body.revision_id, kind: body.kind, message })
    streams.set(body.stream, body.from + body.lines.length)
    return [200, { next: body.from + body.lines.length }]
  }

  const server = createServer(async (req, res) => {
    if (isOffline) return void req.socket.destroy()
    // An agent that is killed cuts its request off.
    const body = await json(req).catch(() => undefined)
    if (body === undefined) return void req.socket.destroy()
    const answers = {
      '/v1/sync/poll': () => poll(Poll.parse(body)),
      '/v1/sync/release': () => release(Release.parse(body)),
      '/v1/sync/report': () => report(Reports.parse(body)),
      '/v1/sync/credentials': () => issueCredential(CredentialWish.parse(body)),
      '/v1/sync/model-tokens': () => issueModelTokens(ModelTokenWish.parse(body)),
      '/v1/sync/jobs': () => reportJobs(JobReports.parse(body)),
      '/v1/sync/snapshots': () => receiveSnapshots(HeldSnapshots.parse(body)),
      '/v1/sync/logs': () => log(LogBatch.parse(body)),
    }[req.url!]
    // A client of the server that had this port before may still send requests.
    if (!answers) return void res.writeHead(404).end()
    const [status, answer, headers = {}] = (await answers()) as [number, object?, Record<string, string>?]
    res.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(answer && JSON.stringify(answer))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    credential,
    credentialRefusals: credentialRefusals,
    faults: faults,
    models,
    modelTokens,
    resyncs,
    workByDeployment: workByDeployment,
    reports,
    logs,
    /** Imitates `slipway restore`: loses a deployment that is newer than the backup, and all leases. */
    forget(id: string): void {
      workByDeployment.delete(id)
      faults.keepsUnknown = true
      lease = { agent: '', fence: lease.fence + 1_000_000 }
      wake()
    },
    finishRestore(): void {
      faults.keepsUnknown = false
      wake()
    },
    /** A new deployment, or a new revision of one. Returns the id of the revision. */
    want(
      id: string,
      revision: Partial<RevisionWork>,
      { secrets = {}, ...more }: Partial<Work> & { secrets?: object } = {},
    ): string {
      const before = workByDeployment.get(id)
      const number = (before?.work.serving?.number ?? 0) + 1
      const newRevision = makeRevisionWork({ number, ...revision })
      const work: Work = { ...(before?.work ?? makeWork(id)), revision: newRevision, ...more }
      const wanted = { work, changedAt: 0, secrets: before?.secrets ?? new Map() }
      wanted.secrets.set(newRevision.id, secrets)
      workByDeployment.set(id, wanted)
      recordChange(wanted)
      return newRevision.id
    },
    updateWork(id: string, more: Partial<Work>): void {
      const wanted = workByDeployment.get(id)!
      wanted.work = { ...wanted.work, ...more }
      recordChange(wanted)
    },
    interrupt(id: string): void {
      const wanted = workByDeployment.get(id)!
      wanted.work = { ...wanted.work, revision: null }
      recordChange(wanted)
    },
    wantAbsent(id: string): void {
      const wanted = workByDeployment.get(id)!
      const { deployment_id, generation } = wanted.work
      wanted.work = {
        ...makeWork(deployment_id),
        generation,
        wanted: 'absent',
        name: null,
        tenant_id: null,
        deployment_type: null,
      }
      recordChange(wanted)
    },
    jobReports,
    snapshots,
    /** Returns the id of the job. */
    wantJob(deployment_id: string, command: JobWork['command'], more: Partial<JobWork> = {}): string {
      const job_id = randomUUID()
      const work: JobWork = {
        job_id,
        deployment_id,
        status: 'QUEUED',
        command,
        timeout_seconds: 60,
        starts_in_ms: 0,
        cancel: false,
        ...more,
      }
      jobs.set(job_id, { work, changedAt: ++lastChange })
      wake()
      return job_id
    },
    cancelJob(job_id: string): void {
      const { work } = jobs.get(job_id)!
      jobs.set(job_id, { work: { ...work, cancel: true }, changedAt: ++lastChange })
      wake()
    },
    forgetJob: (job_id: string) => jobs.delete(job_id),
    reportedStates: (revision: string) => reports.filter(one => one.revision_id === revision).map(({ state }) => state),
    setOffline(value: boolean): void {
      isOffline = value
      wake()
      if (value) server.closeAllConnections()
    },
    /** Gives the lease to another agent. */
    stealLease(): void {
      lease = { agent: 'another', fence: lease.fence + 1 }
    },
    returnLease(): void {
      lease = { agent: '', fence: lease.fence }
    },
    async stop(): Promise<void> {
      isOffline = true
      wake()
      server.closeAllConnections()
      await new Promise(closed => server.close(closed))
    },
  }
}

export const makeWork = (deployment_id: string): Work => ({
  deployment_id,
  generation: 1,
  wanted: 'present',
  tenant_id: randomUUID(),
  name: `shop-${deployment_id.slice(0, 4)}`,
  deployment_type: 'dev',
  custom_url: null,
  k8s_namespace: null,
  needs_database: false,
  revision: null,
  serving: null,
})

export const makeRevisionWork = (more: Partial<RevisionWork>): RevisionWork => ({
  id: randomUUID(),
  number: 1,
  status: 'QUEUED',
  source: 'githost',
  platform_config_path: null,
  image_uri: null,
  template_id: null,
  git: null,
  archive: null,
  install_command: null,
  build_command: null,
  resource_spec: withDefaults({}, 'dev'),
  parts: [],
  secrets: null,
  secret_references: [],
  deadline: null,
  ...more,
})

/** Seals as PROTOCOL.md says; src/agent/control-plane/envelope.ts opens. */
function sealSecrets(value: object, publicKey: string, context: string): string {
  const agentKey = Buffer.from(publicKey, 'base64url')
  const ecdh = createECDH('prime256v1')
  const ephemeral = ecdh.generateKeys()
  const salt = Buffer.concat([ephemeral, agentKey])
  const key = Buffer.from(hkdfSync('sha256', ecdh.computeSecret(agentKey), salt, 'slipway sync v1', 32))
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(context))
  const text = Buffer.concat([cipher.update(JSON.stringify(value)), cipher.final(), cipher.getAuthTag()])
  return ['v1', ...[ephemeral, nonce, text].map(part => part.toString('base64url'))].join('.')
}
