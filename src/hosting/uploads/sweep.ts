// Removes source archives that no revision needs, with their objects in the storage.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem, uuidArray } from '../../kernel/db/db.ts'
import { journalTenantEvents, setSystemSettings } from '../../kernel/db/journal.ts'
import { LEASE } from '../../kernel/db/outbox.ts'
import { deletedMembers } from '../../kernel/db/recorded-changes.ts'
import type { DatabaseServices } from '../../kernel/http/context.ts'
import { UPLOAD_RECORD, uploadEventColumns } from './uploads.ts'

const MAX_REMOVALS = 100
/** A workspace can upload more than a hundred small archives a minute, and others must not wait for their removal. */
const MAX_ROUNDS = 30
const MAX_SWEEP_MS = 20_000

/** Removes what no revision names a day after its link expired, except archives locked by require_stored_archive(). */
export async function sweepUploads(services: DatabaseServices): Promise<void> {
  const end = performance.now() + MAX_SWEEP_MS
  for (let round = 0; round < MAX_ROUNDS && performance.now() < end; round++)
    if ((await removeUnused(services)) < MAX_REMOVALS || services.platform.stopping?.aborted) return
}

/** Returns how many it has removed. */
async function removeUnused({ platform, database }: DatabaseServices): Promise<number> {
  const { storage } = platform
  if (!storage) return 0
  const settings = setSystemSettings(platform, `sweep-${crypto.randomUUID()}`)
  const isUnused = sql`expires_at < clock() - interval '1 day' and not exists (
    select from revisions r
    where r.source_revision_config ->> 'source_tarball_path' = object_path)`
  const lockUnused = sql`
    select id
    from uploads
    where ${isUnused}
    order by expires_at
    limit ${MAX_REMOVALS}
    for update skip locked`
  // A statement after the lock, so that it sees revisions that were written before the lock was granted.
  const markRemoving = sql<Row>`
    update uploads set state = 'removing', expires_at = clock() - interval '1 day' + ${LEASE}
    where id in (${lockUnused}) and ${isUnused}
    returning id, object_path`
  const results = await runAsSystem(database, settings, lockUnused, markRemoving)
  const rows = results[2] as Row[]
  if (rows.length === 0) return 0
  await storage.remove(rows.map(([, path]) => path as string))
  await runAsSystem(database, settings, deleteUploads(rows.map(([id]) => id as string)))
  return rows.length
}

const REMOVED_EVENTS = sql`
    select ${uploadEventColumns('upload.removed', deletedMembers(UPLOAD_RECORD))}
    from changed`

/** A link that was never used has no event; a removed archive has one. */
const deleteUploads = (ids: string[]): SQL => sql`
  with deleted as (
    delete from uploads
    where id = any(${uuidArray(ids)})
    returning *),
  changed as (
    select *
    from deleted
    where size is not null)
  select ${journalTenantEvents(REMOVED_EVENTS)}`
