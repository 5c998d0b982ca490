// Lines on their way to the log store and to the archive. They are queued as they arrive, because a busy log leaves
// Postgres within a second. The sweep hands them on.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem, uuidArray } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { createWorkAfterResponses } from '../../kernel/http/after-response.ts'
import type { Caller } from '../../kernel/http/context.ts'
import { isDatabaseUnavailable } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { LogKind } from '../../protocol/logs.schema.ts'
import type { QueuedLine } from './store/store.ts'

declare module '../../kernel/http/context.ts' {
  interface Ports {
    /** Hands queued lines to the log store, after the response. */
    storeLines?: (waitUntil: Caller['waitUntil']) => void
  }
}

/** The lines of one deployment that wait, as JSON. More are left out, and counted. */
export const MAX_QUEUED_BYTES = 64 * 1024 * 1024
const CLAIMED_BATCHES = 20
const CLAIM = sql`interval '1 minute'`
/** A batch that the store refuses so often is left out, so that others follow it. */
const MAX_ATTEMPTS = 20
const BUDGET_MS = 20_000

/** A condition: lines of the deployment are archived. */
const isArchived = (deployment: SQL, tenant: SQL): SQL => sql`coalesce(
        (
          select s.enabled
          from log_archive_settings s
          where s.tenant_id = ${tenant} and s.deployment_id = ${deployment}
        ),
        (
          select s.enabled
          from log_archive_settings s
          where s.tenant_id = ${tenant} and s.deployment_id is null
        ),
        false)`

/** CTEs of the statement that appends lines. */
export const queueLines = (kind: LogKind, sent: number, forStore: boolean): SQL => sql`wanted as (
      select r.organization_id, r.tenant_id, r.deployment_id, r.id, ${forStore}::boolean as for_store,
        ${isArchived(sql`r.deployment_id`, sql`r.tenant_id`)} as for_archive
      from revision r, counted
      where counted.lines > 0),
    waiting as (
      select w.*, (
          select coalesce(sum(b.bytes), 0)
          from log_batches b
          where b.deployment_id = w.deployment_id) < ${MAX_QUEUED_BYTES} as has_room
      from wanted w
      where w.for_store or w.for_archive),
    queued as (
      insert into log_batches (
        organization_id, tenant_id, deployment_id, revision_id, kind,
        number, skipped, lines, bytes, content, for_store, for_archive)
      select w.organization_id, w.tenant_id, w.deployment_id, w.id, ${kind},
        log.lines - counted.lines + 1, ${sent} - counted.lines, counted.lines,
        octet_length(given.lines), given.lines, w.for_store, w.for_archive
      from waiting w, log, counted, given
      where w.has_room
      returning for_store),
    left_out as (
      insert into log_losses as l (organization_id, tenant_id, deployment_id, revision_id, hour, lines)
      select w.organization_id, w.tenant_id, w.deployment_id, w.id, date_trunc('hour', clock()), counted.lines
      from waiting w, counted
      where not w.has_room
      on conflict (revision_id, hour) do update set lines = l.lines + excluded.lines)`

export type Batch = {
  id: string
  tenant_id: string
  deployment_id: string
  revision_id: string
  kind: LogKind
  number: number
  skipped: number
  content: string
}

/** Columns of `log_batches` as JSON, of the rows that a statement returns. */
export const BATCH = sql`json_build_object(
      'id', id, 'tenant_id', tenant_id, 'deployment_id', deployment_id, 'revision_id', revision_id, 'kind', kind,
      'number', number, 'skipped', skipped, 'content', content)`

type SentLine = Pick<QueuedLine, 'timestamp' | 'severity' | 'message'> & Partial<QueuedLine>

export function readBatch({ content, skipped, number, id: _id, ...of }: Batch): QueuedLine[] {
  return (JSON.parse(content) as SentLine[]).slice(skipped).map((line, i) => ({
    ...of,
    number: number + i,
    timestamp: line.timestamp,
    severity: line.severity,
    message: line.message,
    process: line.process ?? null,
    attributes: line.attributes ?? null,
    request_id: line.request_id ?? null,
    trace_id: line.trace_id ?? null,
  }))
}

/** A batch is deleted when neither the store nor the archive waits for it. */
export const finishBatches = (ids: string[], part: 'for_store' | 'for_archive'): SQL[] => {
  const other = part === 'for_store' ? sql`for_archive` : sql`for_store`
  const done = sql.identifier(part)
  return [
    sql`delete from log_batches where id = any(${uuidArray(ids)}) and not ${other}`,
    sql`update log_batches set ${done} = false, claimed_until = null, attempts = 0 where id = any(${uuidArray(ids)})`,
  ]
}

const claimForStore = sql<Row>`
  with claimed as (
    update log_batches
    set claimed_until = clock() + ${CLAIM}, attempts = attempts + 1
    where id in (
      select id
      from log_batches
      where for_store and (claimed_until is null or claimed_until < clock())
      order by received_at
      limit ${CLAIMED_BATCHES}
      for update skip locked)
    returning *)
  select ${BATCH}, attempts
  from claimed`

const releaseClaims = (ids: string[]) =>
  sql`update log_batches set claimed_until = null where id = any(${uuidArray(ids)})`

const countLoss = (ids: string[]) => sql`
  insert into log_losses as l (organization_id, tenant_id, deployment_id, revision_id, hour, lines)
  select organization_id, tenant_id, deployment_id, revision_id, date_trunc('hour', clock()), sum(lines)
  from log_batches
  where id = any(${uuidArray(ids)})
  group by organization_id, tenant_id, deployment_id, revision_id
  on conflict (revision_id, hour) do update set lines = l.lines + excluded.lines`

/** One that the store refuses holds no other one back, which may be of another workspace. */
async function appendBatches(append: (lines: QueuedLine[]) => Promise<void>, batches: Batch[]) {
  const stored = new Set<string>()
  let failure: unknown
  const store = async (some: Batch[]) => {
    try {
      await append(some.flatMap(readBatch))
      for (const { id } of some) stored.add(id)
    } catch (error) {
      failure = error
    }
  }
  await store(batches)
  if (stored.size === 0 && batches.length > 1)
    for (const batch of batches) if (!isDatabaseUnavailable(failure)) await store([batch])
  return { stored, failure }
}

/** Hands one group of batches to the store. Returns false when none is left, or the store is away. */
async function storeSome({ logs, database, platform }: Services): Promise<boolean> {
  if (!logs.append) return false
  const [, rows] = (await runAsSystem(database, setClock(platform), claimForStore)) as [unknown, Row[]]
  if (rows.length === 0) return false
  const batches = rows.map(([json]) => JSON.parse(json as string) as Batch)
  const { stored, failure } = await appendBatches(logs.append, batches)
  const failed = batches.flatMap(({ id }) => (stored.has(id) ? [] : id))
  const refused = batches.filter(({ id }, i) => !stored.has(id) && Number(rows[i]![1]) >= MAX_ATTEMPTS)
  // A store that is away is waited for. Other failures are about the lines.
  const lost = isDatabaseUnavailable(failure) ? [] : refused.map(({ id }) => id)
  await runAsSystem(
    database,
    setClock(platform),
    ...(stored.size > 0 ? finishBatches([...stored], 'for_store') : []),
    ...(lost.length > 0 ? [countLoss(lost), ...finishBatches(lost, 'for_store')] : []),
    ...(failed.length > 0 ? [releaseClaims(failed)] : []),
  )
  if (failed.length > 0) throw failure
  return rows.length === CLAIMED_BATCHES
}

export async function storeQueuedLines(services: Services): Promise<void> {
  const end = Date.now() + BUDGET_MS
  while ((await storeSome(services)) && Date.now() < end && !services.platform.stopping?.aborted);
}

/** One of them works at a time, and takes what came meanwhile. The sweep takes what this leaves. */
export function createLineStorer(services: Services): (waitUntil: Caller['waitUntil']) => void {
  let isDue = false
  const start = createWorkAfterResponses(services.platform, {
    take: () => {
      if (!isDue) return undefined
      isDue = false
      return true
    },
    handle: () => storeQueuedLines(services),
    failure: 'log_store_away',
  })
  return waitUntil => {
    isDue = true
    start(waitUntil)
  }
}
