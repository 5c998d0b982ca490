// The drains of this agent: gets them with a poll, gives each the redacted lines and the metrics that belong to it, and
// tells the control plane what was sent, what waits and what was dropped.
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type * as z from 'zod'
import type { Network } from '../../protocol/address-kind.ts'
import type { DrainGroup, LogRecord } from '../../protocol/drain-records.ts'
import type { DrainReport, OfferedDrains, WorkDrain } from '../../protocol/drains.schema.ts'
import { type LogBatch, levels } from '../../protocol/logs.schema.ts'
import type { MetricPoint } from '../../protocol/metrics.schema.ts'
import { type ControlPlaneClient, SHUTDOWN_TIMEOUT_MS } from '../control-plane/client.ts'
import type { AgentKeys } from '../control-plane/envelope.ts'
import type { RevisionRef } from '../engine.ts'
import type { LogEvent } from '../system/log-event.ts'
import { DiskBuffer } from './disk-buffer.ts'
import { DrainSender } from './drain-sender.ts'
import { MetricTotals } from './metric-records.ts'
import { SendSlots } from './send-slots.ts'

type Options = {
  /** A folder for each drain. */
  folder: string
  /** For all drains. Workspaces get equal parts, and so do the drains of each. */
  max_bytes?: number | undefined
  networks: Network[]
  keys: AgentKeys
  control: Pick<ControlPlaneClient, 'drains'>
  currentLease: () => { agent_id: string; fence: number } | undefined
  logEvent: LogEvent
  report_ms?: number | undefined
  pause_ms?: number | undefined
}
type Line = Pick<LogBatch['lines'][number], 'timestamp' | 'level' | 'message' | 'process'> & {
  attributes?: LogRecord['attributes'] | null | undefined
}
type Source = RevisionRef & { job_id?: string | undefined }
type Deployment = { tenant_id: string; name: string }
type Drain = {
  of: WorkDrain
  buffer: DiskBuffer
  sender: DrainSender
  /** Groups that are full, and those that are not, by signal and revision. */
  ready: DrainGroup[]
  pending: Map<string, Pending>
  pendingLength: number
  /** The last report that was accepted. */
  reported: string
}
type Pending = { group: DrainGroup; length: number }

const DEFAULT_MAX_BYTES = 1024 * 1024 * 1024
const MIN_DRAIN_BYTES = 1024 * 1024
const [MAX_GROUP_RECORDS, MAX_GROUP_LENGTH] = [1000, 512 * 1024]
/** Bounds the memory while the disk is slow. */
const MAX_PENDING_LENGTH = 16 * 1024 * 1024
const RECORD_LENGTH = 100
const REPORT_MS = 10_000

export class Drains {
  readonly #options: Options
  readonly #drains = new Map<string, Drain>()
  readonly #deployments = new Map<string, Deployment>()
  readonly #matching = new Map<string, Drain[]>()
  readonly #totals = new MetricTotals()
  readonly #slots = new SendSlots()
  #digest: string | null = null
  #flushing: Promise<void> | undefined
  #reporting: Promise<void> | undefined
  #reportedAt = 0

  constructor(options: Options) {
    this.#options = options
  }

  /** Null until the control plane has told them: it then tells all. */
  get digest(): string | null {
    return this.#digest
  }

  /** A drain that is gone loses what waits. */
  async take(offered: OfferedDrains | undefined, listener: string): Promise<void> {
    if (!offered) return
    const { folder, logEvent } = this.#options
    const wanted = new Map(offered.list.map(one => [one.id, one]))
    for (const [id, drain] of this.#drains) {
      if (wanted.has(id)) continue
      this.#drains.delete(id)
      await closeDrain(drain)
      await rm(join(folder, id), { recursive: true, force: true })
    }
    if (this.#digest === null)
      for (const id of await readdir(folder).catch(() => []))
        if (!wanted.has(id)) await rm(join(folder, id), { recursive: true, force: true })
    const limits = divideBytes(offered.list, this.#options.max_bytes ?? DEFAULT_MAX_BYTES)
    let isComplete = true
    for (const [id, of] of wanted)
      try {
        await this.#open(of, limits.get(of.tenant_id)!, listener)
      } catch (error) {
        isComplete = false
        logEvent('drain not opened', { drain: id, error: String((error as NodeJS.ErrnoException).code ?? error) })
      }
    this.#matching.clear()
    // Otherwise they come again with the next poll.
    if (isComplete) this.#digest = offered.digest
  }

  async #open(of: WorkDrain, maxBytes: number, listener: string): Promise<void> {
    const { folder, keys, networks, pause_ms } = this.#options
    const headers =
      of.access === null ? {} : keys.open<Record<string, string>>(of.access, `${listener}/drains/${of.id}`)
    const target = { ...of, headers }
    const known = this.#drains.get(of.id)
    if (known) {
      known.of = of
      known.buffer.limit(maxBytes)
      known.sender.redirect(target)
      return
    }
    const buffer = await DiskBuffer.open(join(folder, of.id), maxBytes)
    const sender = new DrainSender({ buffer, target, networks, slots: this.#slots, pause_ms })
    this.#drains.set(of.id, { of, buffer, sender, ready: [], pending: new Map(), pendingLength: 0, reported: '' })
  }

  /** The workspace and the name of a deployment, before its lines come. */
  describe(deployment_id: string, deployment: Deployment): void {
    this.#deployments.set(deployment_id, deployment)
    this.#matching.delete(deployment_id)
  }

  forget(deployment_id: string): void {
    this.#deployments.delete(deployment_id)
    this.#matching.delete(deployment_id)
  }

  #drainsOf(deployment_id: string): Drain[] {
    const known = this.#matching.get(deployment_id)
    if (known) return known
    const tenant = this.#deployments.get(deployment_id)?.tenant_id
    const found = [...this.#drains.values()].filter(
      ({ of }) => of.tenant_id === tenant && (of.deployment_ids?.includes(deployment_id) ?? true),
    )
    this.#matching.set(deployment_id, found)
    return found
  }

  wants(deployment_id: string): boolean {
    return this.#drains.size > 0 && this.#drainsOf(deployment_id).length > 0
  }

  /** Redacted lines. */
  addLines(source: Source, kind: string, lines: Line[]): void {
    const signal = kind === 'request' ? 'requests' : 'logs'
    for (const drain of this.#drainsOf(source.deployment_id))
      if (drain.of.signals.includes(signal))
        for (const line of lines)
          if (isWanted(drain.of, line))
            this.#add(drain, signal, source, toRecord(source, kind, line), line.message.length)
  }

  /** Lines that were lost before they could be given to drains. */
  noteLost(source: Source, kind: string, count: number): void {
    const signal = kind === 'request' ? 'requests' : 'logs'
    for (const { of, buffer } of this.#drainsOf(source.deployment_id))
      if (of.signals.includes(signal)) buffer.noteDropped(count)
  }

  addPoints(points: z.input<typeof MetricPoint>[]): void {
    this.#totals.prune(Date.now())
    for (const point of points) {
      const drains = this.#drainsOf(point.deployment_id).filter(({ of }) => of.signals.includes('metrics'))
      if (drains.length === 0) continue
      const records = this.#totals.add(point)
      for (const drain of drains) for (const record of records) this.#add(drain, 'metrics', point, record, 500)
    }
  }

  #add(drain: Drain, signal: DrainGroup['signal'], source: Source, record: DrainGroup['records'][0], size: number) {
    const length = size + RECORD_LENGTH
    if (drain.pendingLength + length > MAX_PENDING_LENGTH) return drain.buffer.noteDropped(1)
    drain.pendingLength += length
    const name = `${signal} ${source.revision_id}`
    let pending = drain.pending.get(name)
    if (!pending) {
      pending = { group: { signal, resource: this.#resourceOf(source), records: [] } as DrainGroup, length: 0 }
      drain.pending.set(name, pending)
    }
    pending.group.records.push(record as never)
    pending.length += length
    if (pending.group.records.length < MAX_GROUP_RECORDS && pending.length < MAX_GROUP_LENGTH) return
    drain.pending.delete(name)
    drain.ready.push(pending.group)
  }

  #resourceOf({ deployment_id, revision_id }: Source) {
    const { tenant_id = '', name = deployment_id } = this.#deployments.get(deployment_id) ?? {}
    return {
      'service.name': name,
      'slipway.workspace_id': tenant_id,
      'slipway.deployment_id': deployment_id,
      'slipway.revision_id': revision_id,
    }
  }

  /** Writes what was added, and reports from time to time. */
  flush(): Promise<void> {
    this.#flushing ??= Promise.all([...this.#drains.values()].map(writePending))
      .then(() => {})
      .finally(() => {
        this.#flushing = undefined
      })
    const { report_ms = REPORT_MS } = this.#options
    if (this.#drains.size > 0 && performance.now() - this.#reportedAt >= report_ms) {
      this.#reportedAt = performance.now()
      this.#reporting ??= this.#report().finally(() => {
        this.#reporting = undefined
      })
    }
    return this.#flushing
  }

  async #report(): Promise<void> {
    const { control, currentLease } = this.#options
    const lease = currentLease()
    const reports = [...this.#drains.values()].map(drain => ({ drain, report: toReport(drain) }))
    const changed = reports.filter(({ drain, report }) => JSON.stringify(report) !== drain.reported)
    if (!lease || changed.length === 0) return
    try {
      await control.drains({ ...lease, drains: changed.map(({ report }) => report) })
      for (const { drain, report } of changed) drain.reported = JSON.stringify(report)
    } catch {
      // The counts are totals: the next report has them.
    }
  }

  async close(): Promise<void> {
    const written = (this.#flushing ?? Promise.resolve()).then(() => this.flush())
    await Promise.race([written, delay(SHUTDOWN_TIMEOUT_MS, undefined, { ref: false })])
    await Promise.all([...this.#drains.values()].map(closeDrain))
  }
}

/** Equal parts for the workspaces, and within each for its drains. */
function divideBytes(drains: WorkDrain[], total: number): Map<string, number> {
  const workspaces = Map.groupBy(drains, ({ tenant_id }) => tenant_id)
  const share = total / workspaces.size
  return new Map([...workspaces].map(([id, own]) => [id, Math.max(MIN_DRAIN_BYTES, Math.floor(share / own.length))]))
}

function isWanted({ filter, sampling_rate }: WorkDrain, { level, process, message }: Line): boolean {
  const { min_level, processes, contains } = filter
  if (min_level !== null && levels.indexOf(level) < levels.indexOf(min_level)) return false
  if (processes.length > 0 && !processes.includes(process ?? '')) return false
  if (contains !== null && !message.toLowerCase().includes(contains.toLowerCase())) return false
  return sampling_rate >= 1 || Math.random() < sampling_rate
}

function toRecord(
  { job_id }: Source,
  kind: string,
  { timestamp, level, message, process, attributes }: Line,
): LogRecord {
  return {
    time: timestamp,
    level,
    message,
    attributes: {
      ...attributes,
      'slipway.log': kind,
      ...(process != null && { 'slipway.process': process }),
      ...(job_id !== undefined && { 'slipway.job_id': job_id }),
    },
  }
}

async function writePending(drain: Drain): Promise<void> {
  const { ready, pending, buffer, sender } = drain
  const groups = [...ready.splice(0), ...[...pending.values()].map(({ group }) => group)]
  if (groups.length === 0) return
  pending.clear()
  drain.pendingLength = 0
  try {
    await buffer.append(groups)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    sender.state = { ...sender.state, error: `The buffer of the agent cannot be written: ${code}.` }
  }
  sender.wake()
}

function toReport({ of, buffer, sender }: Drain): DrainReport {
  return { id: of.id, ...buffer.counts, ...sender.state }
}

async function closeDrain({ sender, buffer }: Drain): Promise<void> {
  await sender.close()
  await buffer.close()
}
