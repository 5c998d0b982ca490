// Scheduled work on the audit log: signs the newest event of each journal once a day, and deletes old events.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem, textArray, uuidArray } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { deleteExpired } from '../../kernel/db/sweep.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { createJournalSigner, type SignedPlace } from './hash-chain.ts'

const MAX_HEADS = 500
const MAX_JOURNALS = 20
const MAX_EVENTS_OF_JOURNAL = 2000
const DAY_MS = 24 * 60 * 60_000

export async function sweepAuditLog(services: Services): Promise<void> {
  await signHeads(services)
  await deleteExpiredEvents(services)
  await deleteExpiredAttempts(services)
}

const clockTime = ({ platform }: Services): number => platform.clock.now()
const expiryTime = (services: Services): string =>
  new Date(clockTime(services) - services.config.auditRetentionDays * DAY_MS).toISOString()

type SignedRow = SignedPlace & { signature: string }

async function signPlaces(services: Services, kind: SignedPlace['kind'], at: string, rows: Row[]) {
  const signer = createJournalSigner(services.config.sealingKeys)
  const places = rows.map(([scope, seq, hash]) => ({ kind, scope, seq: Number(seq), hash, at }) as SignedPlace)
  return Promise.all(places.map(async place => ({ ...place, signature: await signer.sign(place) })))
}

const givenPlaces = (places: SignedRow[]) => sql`unnest(
      ${uuidArray(places.map(({ scope }) => scope))},
      ${sql.param(places.map(({ seq }) => seq))}::bigint[],
      ${sql.param(places.map(({ hash }) => hash))}::text[],
      ${textArray(places.map(({ signature }) => signature))}
    ) as given(scope_id, seq, hash, signature)`

const isUnsignedAt = (time: SQL): SQL => sql`(j.signed_at is null or j.signed_at < ${time} - interval '1 day')`

async function signHeads(services: Services): Promise<void> {
  const { database, platform } = services
  const results = await runAsSystem(
    database,
    setClock(platform),
    sql<Row>`
      select j.scope_id, j.seq, e.hash
      from journals j
      join events e on e.scope_id = j.scope_id and e.seq = j.seq
      where j.seq > j.signed_seq and ${isUnsignedAt(sql`clock()`)} and e.hash is not null
      limit ${MAX_HEADS}`,
  )
  const at = new Date(clockTime(services)).toISOString()
  const heads = await signPlaces(services, 'head', at, results.at(-1) as Row[])
  if (heads.length === 0) return
  // A journal that is being written is skipped, and signed a minute later. One that another sweep has signed is left.
  await runAsSystem(
    database,
    sql`
      with idle as (
        select j.scope_id, given.seq, given.hash, given.signature
        from ${givenPlaces(heads)}
        join journals j on j.scope_id = given.scope_id and ${isUnsignedAt(sql`${at}::timestamptz`)}
        order by j.scope_id
        for update of j skip locked
      ),
      signed as (
        insert into journal_heads (scope_id, seq, hash, signed_at, signature)
        select scope_id, seq, hash, ${at}::timestamptz, signature
        from idle
        on conflict do nothing
      )
      update journals j
      set signed_seq = idle.seq, signed_at = ${at}::timestamptz
      from idle
      where j.scope_id = idle.scope_id`,
  )
}

/**
 * Deletes from the start of a journal only, so that the chain has no gaps. The checkpoint keeps the hash of the last
 * event that is deleted, in the same statement. A writer that does not see that event any more sees the checkpoint.
 */
async function deleteExpiredEvents(services: Services): Promise<void> {
  const { database } = services
  const expiry = expiryTime(services)
  const [rows] = await runAsSystem(
    database,
    sql<Row>`
      select journal.scope_id, last.seq, last.hash
      from (
        select distinct scope_id
        from (
          select scope_id
          from events
          where created_at < ${expiry}::timestamptz
          limit ${MAX_JOURNALS * MAX_EVENTS_OF_JOURNAL}
        ) expired
        limit ${MAX_JOURNALS}
      ) journal
      cross join lateral (
        select seq, hash
        from (
          select seq, hash, bool_and(created_at < ${expiry}::timestamptz) over (order by seq) as is_expired
          from (
            select seq, hash, created_at
            from events
            where scope_id = journal.scope_id
            order by seq
            limit ${MAX_EVENTS_OF_JOURNAL}
          ) oldest
        ) judged
        where is_expired
        order by seq desc
        limit 1
      ) last`,
  )
  const checkpoints = await signPlaces(services, 'checkpoint', expiry, rows as Row[])
  if (checkpoints.length === 0) return
  await runAsSystem(
    database,
    sql`
      with moved as (
        insert into journal_checkpoints as c (scope_id, seq, hash, expired_before, signature)
        select scope_id, seq, hash, ${expiry}::timestamptz, signature
        from ${givenPlaces(checkpoints)}
        on conflict (scope_id) do update set
          seq = excluded.seq,
          hash = excluded.hash,
          expired_before = excluded.expired_before,
          signature = excluded.signature
        where c.seq < excluded.seq
        returning scope_id, seq
      ),
      deleted_heads as (
        delete from journal_heads h
        using moved m
        where h.scope_id = m.scope_id and h.seq <= m.seq and h.signed_at < ${expiry}::timestamptz
      )
      delete from events e
      using moved m
      where e.scope_id = m.scope_id and e.seq <= m.seq`,
  )
}

async function deleteExpiredAttempts(services: Services): Promise<void> {
  await deleteExpired(services, 'refused requests', [
    { table: 'attempt_windows', where: sql`started_at < clock() - interval '1 day'` },
    { table: 'audit_attempts', where: sql`created_at < ${expiryTime(services)}::timestamptz` },
  ])
}
