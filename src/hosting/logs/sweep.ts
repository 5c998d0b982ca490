// The scheduled work of logs: hands queued lines to the store, writes archives, and deletes those that have expired.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem, uuidArray } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { levels } from '../../protocol/logs.schema.ts'
import { DEFAULT_ARCHIVE_DAYS } from './archive.schema.ts'
import { BATCH, type Batch, finishBatches, readBatch, storeQueuedLines } from './queued-lines.ts'
import type { QueuedLine } from './store/store.ts'

const BUDGET_MS = 20_000
/** Lines of the current hour are archived when so many wait, as JSON. Others when their hour has ended. */
const LARGE_BYTES = 8 * 1024 * 1024
const MAX_ARCHIVE_BYTES = 16 * 1024 * 1024
const CLAIM = sql`interval '2 minutes'`
const MAX_REMOVALS = 100

export async function sweepLogs(services: Services): Promise<void> {
  const end = Date.now() + BUDGET_MS
  const goesOn = () => Date.now() < end && !services.platform.stopping?.aborted
  // Each part has its turn, also while another one fails.
  const parts = await Promise.allSettled([
    storeQueuedLines(services),
    (async () => {
      while ((await writeArchive(services)) && goesOn());
      while ((await removeArchives(services)) && goesOn());
    })(),
    services.logs.expire(services),
  ])
  for (const part of parts) if (part.status === 'rejected') throw part.reason
}

const IS_FREE = sql`for_archive and (claimed_until is null or claimed_until < clock())`

/** Claims batches of one deployment and hour, the oldest first. */
const CLAIM_ARCHIVE = sql<Row>`
  with due as (
    select deployment_id, date_trunc('hour', received_at) as hour
    from log_batches
    where ${IS_FREE}
    group by 1, 2
    having date_trunc('hour', min(received_at)) < date_trunc('hour', clock()) or sum(bytes) >= ${LARGE_BYTES}
    order by min(received_at)
    limit 1),
  sized as (
    select b.id, sum(b.bytes) over (order by b.received_at, b.id) - b.bytes as before
    from log_batches b
    join due on due.deployment_id = b.deployment_id
    where b.for_archive
      and (b.claimed_until is null or b.claimed_until < clock())
      and b.received_at >= due.hour
      and b.received_at < due.hour + interval '1 hour'),
  claimed as (
    update log_batches
    set claimed_until = clock() + ${CLAIM}
    where id in (
      select id
      from log_batches
      where id in (select id from sized where before < ${MAX_ARCHIVE_BYTES})
      for update skip locked)
    returning *)
  select ${BATCH}, organization_id, (select hour from due)
  from claimed
  order by received_at, id`

async function writeArchive({ platform, database }: Services): Promise<boolean> {
  const { storage } = platform
  if (!storage) return false
  const [, rows] = (await runAsSystem(database, setClock(platform), CLAIM_ARCHIVE)) as [unknown, string[][]]
  const [first] = rows
  if (!first) return false
  const batches = rows.map(([json]) => JSON.parse(json!) as Batch)
  const [, organization, hour] = first
  const { tenant_id, deployment_id, id } = batches[0]!
  const lines = batches.flatMap(readBatch)
  const file = await compress(lines)
  // A second attempt replaces the object of one that ended before its row was written.
  const path = `logs/${tenant_id}/${deployment_id}/${hourName(hour!)}/${id}.ndjson.gz`
  await storage.put(path, file)
  const insert = sql`
    insert into log_archives (
      organization_id, tenant_id, deployment_id, hour, object_path, lines, bytes, expires_at)
    select ${organization}::uuid, ${tenant_id}::uuid, d.id, ${hour}::timestamptz, ${path},
      ${lines.length}, ${file.byteLength}, clock() + make_interval(days => coalesce(
        (select s.retention_days from log_archive_settings s where s.tenant_id = ${tenant_id}::uuid
          and s.deployment_id = ${deployment_id}::uuid),
        (select s.retention_days from log_archive_settings s where s.tenant_id = ${tenant_id}::uuid
          and s.deployment_id is null),
        ${DEFAULT_ARCHIVE_DAYS}))
    from (select 1) one
    left join deployments d on d.id = ${deployment_id}::uuid
    on conflict (object_path) do update set lines = excluded.lines, bytes = excluded.bytes`
  const ids = batches.map(batch => batch.id)
  await runAsSystem(database, setClock(platform), insert, ...finishBatches(ids, 'for_archive'))
  return true
}

const hourName = (hour: string): string =>
  new Date(hour.replace(' ', 'T').replace(/([+-]\d\d)$/, '$1:00')).toISOString().slice(0, 13)

/** The members that the API shows, one object in each line. */
const toArchivedLine = (line: QueuedLine): string =>
  `${JSON.stringify({
    timestamp: line.timestamp,
    level: levels[line.severity],
    kind: line.kind,
    revision_id: line.revision_id,
    number: line.number,
    ...(line.process && { process: line.process }),
    message: line.message,
    ...(line.attributes && { attributes: line.attributes }),
  })}\n`

async function compress(lines: QueuedLine[]): Promise<Uint8Array<ArrayBuffer>> {
  const text = new Blob(lines.map(toArchivedLine))
  const compressed = text.stream().pipeThrough(new CompressionStream('gzip'))
  return new Uint8Array(await new Response(compressed).arrayBuffer())
}

/** An archive without a deployment is of one that was deleted. */
async function removeArchives({ platform, database }: Services): Promise<boolean> {
  const { storage } = platform
  if (!storage) return false
  const ended = sql<Row>`
    select id, object_path
    from log_archives
    where expires_at < clock() or deployment_id is null
    limit ${MAX_REMOVALS}`
  const [, rows] = (await runAsSystem(database, setClock(platform), ended)) as [unknown, string[][]]
  if (rows.length === 0) return false
  await storage.remove(rows.map(([, path]) => path!))
  const ids = rows.map(([id]) => id!)
  await runAsSystem(database, setClock(platform), sql`delete from log_archives where id = any(${uuidArray(ids)})`)
  return rows.length === MAX_REMOVALS
}
