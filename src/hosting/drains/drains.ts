// Creates, reads, changes, tests and deletes the drains of a workspace.
import { and, eq, getTableColumns, type SQL, sql } from 'drizzle-orm'
import type { AnyPgColumn } from 'drizzle-orm/pg-core'
import type * as z from 'zod'
import { sealedFingerprint } from '../../kernel/crypto/digest.ts'
import {
  bumpVersion,
  db,
  inTenant,
  type Row,
  refuseUnless,
  requirePermission,
  run,
  textArray,
  uuidArray,
  versionMatches,
} from '../../kernel/db/db.ts'
import { announceEvents, commit, concludeWrite, prepareWrite } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime, withoutNulls } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { afterCursor, hasName, hasOwner, newestFirst, readPage } from '../../kernel/http/paging.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import type { Permission } from '../../kernel/permissions.ts'
import { encodeBatch } from '../../protocol/drain-encoding.ts'
import {
  type DrainSignal,
  drainKinds,
  drainSignals,
  platformSignals,
  SIGNALS_OF,
} from '../../protocol/drains.schema.ts'
import { isSyslogUrl, postBatch, requireDrainUrl } from './receiver.ts'
import type * as schema from './schema.ts'
import { drains } from './tables.ts'

type DrainParams = z.output<typeof schema.DrainRef>
export type DrainRow = typeof drains.$inferSelect
type ShownRow = DrainRow & { agents: schema.Sender[] | string | null }

export const HEADERS_PLACE = 'drain headers'

const AGENTS = sql<schema.Sender[] | null>`(
  select json_agg(json_build_object(
      'listener_id', s.listener_id, 'sent', s.sent, 'dropped', s.dropped, 'waiting', s.waiting,
      'waiting_bytes', s.waiting_bytes, 'last_sent_at', s.last_sent_at, 'failing_since', s.failing_since,
      'error', s.error, 'reported_at', s.reported_at) order by s.listener_id)
  from drain_states s
  where s.drain_id = ${drains.id} and s.tenant_id = current_tenant())`
const COLUMNS = { ...getTableColumns(drains), agents: AGENTS.as('agents') }

const latest = (times: (string | null)[]): string | null =>
  times
    .filter(time => time !== null)
    .sort()
    .at(-1) ?? null
const sumOf = (values: number[]): number => values.reduce((sum, value) => sum + value, 0)

function toWire(row: ShownRow): schema.Drain & { [etagVersion]: number } {
  const agents = ((typeof row.agents === 'string' ? JSON.parse(row.agents) : row.agents) ?? []) as schema.Sender[]
  const own: schema.Sender = {
    listener_id: null,
    sent: Number(row.sent),
    dropped: Number(row.dropped),
    waiting: null,
    waiting_bytes: null,
    last_sent_at: toIsoTime(row.last_sent_at),
    failing_since: toIsoTime(row.failing_since),
    error: row.error,
    reported_at: null,
  }
  const senders = [
    ...(platformSignals.some(signal => row.signals.includes(signal)) ? [own] : []),
    ...agents.map(agent => ({
      ...agent,
      last_sent_at: toIsoTime(agent.last_sent_at),
      failing_since: toIsoTime(agent.failing_since),
      reported_at: toIsoTime(agent.reported_at),
    })),
  ]
  const failing = senders.filter(({ failing_since }) => failing_since !== null)
  const last_sent_at = latest(senders.map(sender => sender.last_sent_at))
  const isWaiting = last_sent_at === null
  return {
    id: row.id,
    name: row.name,
    kind: row.kind,
    url: row.url,
    header_names: row.header_names,
    headers_fingerprint: row.headers && sealedFingerprint(row.headers),
    compression: row.compression,
    signals: row.signals as DrainSignal[],
    deployment_ids: row.deployment_ids,
    tag_value_ids: row.tag_value_ids,
    filter: { min_level: row.min_level, processes: row.processes, contains: row.contains },
    sampling_rate: row.sampling_rate,
    enabled: row.enabled,
    owner: row.owner,
    state: {
      status: !row.enabled ? 'disabled' : failing.length > 0 ? 'failing' : isWaiting ? 'waiting' : 'ok',
      sent: sumOf(senders.map(({ sent }) => sent)),
      dropped: sumOf(senders.map(({ dropped }) => dropped)),
      last_sent_at,
      failing_since: failing.map(sender => sender.failing_since!).sort()[0] ?? null,
      error: (failing[0] ?? senders.find(({ error }) => error !== null))?.error ?? null,
      waiting: sumOf(senders.map(({ waiting }) => waiting ?? 0)),
      senders,
    },
    created_at: toIsoTime(row.created_at),
    updated_at: toIsoTime(row.updated_at),
    [etagVersion]: row.version,
  }
}

const isDrain = ({ drain_id }: DrainParams | Placeholders<DrainParams>): SQL =>
  and(eq(drains.id, drain_id), inTenant(drains))!

/** The URL is shown without its query, which may hold a secret. */
const RECORDED = {
  ...recordColumns(drains, [
    'name',
    'kind',
    'compression',
    'header_names',
    'signals',
    'deployment_ids',
    'tag_value_ids',
    'min_level',
    'processes',
    'contains',
    'sampling_rate',
    'enabled',
    'owner',
  ] as const),
  url: (row: SQL) => sql`split_part(${row}.url, '?', 1)`,
}

// ---- conditions

/** A drain gets what a key with these permissions sees. */
const READING: Record<DrainSignal, Permission> = {
  logs: 'deployments:read',
  requests: 'deployments:read',
  metrics: 'deployments:read',
  events: 'events:read',
  traces: 'runs:read',
}
const canRead = (signals: SQL): SQL =>
  sql.join(
    [...Map.groupBy(drainSignals, signal => READING[signal])].map(
      ([permission, own]) =>
        sql`case when ${signals} && ${textArray(own)} then ${requirePermission(permission)} else true end`,
    ),
    sql` and `,
  )

const hasOnlyKnownIds = (code: string, table: SQL, ids: readonly string[]): SQL => {
  const unknown = sql`(
    select string_agg(given.id::text, ', ')
    from unnest(${uuidArray(ids)}) given(id)
    where not exists (select from ${table} k where k.id = given.id and k.tenant_id = current_tenant()))`
  return sql`case when ${unknown} is null then true else refuse(${code}, ${unknown}) end`
}
type Scope = { deployment_ids?: string[] | null | undefined; tag_value_ids?: string[] | null | undefined }
const hasKnownScope = ({ deployment_ids, tag_value_ids }: Scope): SQL =>
  sql`${hasOnlyKnownIds('deployment_not_found', sql`deployments`, deployment_ids ?? [])}
    and ${hasOnlyKnownIds('tag_value_not_found', sql`tag_values`, tag_value_ids ?? [])}`

/** The row as it would be. */
function allowsSignals({ kind, signals, scope }: { kind: SQL; signals: SQL; scope: SQL }): SQL {
  const known = sql.join(
    drainKinds.map(name => sql`when ${name} then ${textArray(SIGNALS_OF[name])}`),
    sql` `,
  )
  const refused = sql`(
    select string_agg(given.signal, ', ') || ' for ' || ${kind}
    from unnest(${signals}) given(signal)
    where not given.signal = any(case ${kind} ${known} end)
      or (given.signal = any(${textArray(platformSignals)}) and ${scope} > 0))`
  return sql`case when ${refused} is null then true else refuse('drain_signal_unsupported', ${refused}) end`
}

// ---- lists and one

type DrainPage = z.output<typeof schema.DrainQuery>
const pageStatement = prepareStatement((page: Placeholders<DrainPage>) =>
  db
    .select(COLUMNS)
    .from(drains)
    .where(and(inTenant(drains), hasName(drains.name, page), hasOwner(drains.owner, page), afterCursor(drains, page)))
    .orderBy(...newestFirst(drains))
    .limit(page.limit)
    .offset(page.offset),
)
export const listDrains = verb('drains:read', (ctx, page: DrainPage) => readPage(ctx, pageStatement, page, toWire))

const drainStatement = prepareStatement((ref: Placeholders<DrainParams>) =>
  db.select(COLUMNS).from(drains).where(isDrain(ref)),
)
export const readDrain = verb('drains:read', async (ctx, { drain_id }: DrainParams) =>
  toWire(requireRow(await run(ctx, drainStatement({ drain_id })), 'drain_not_found')),
)

// ---- changes

/** Locks the workspace before the journal: deleting the workspace meanwhile could deadlock otherwise. */
const LOCK_WORKSPACE = sql`select from workspaces w where w.id = current_tenant() for key share`
const lockDrain = (ref: DrainParams): SQL => sql`select from ${drains} where ${isDrain(ref)} for update`

/** Only what comes later is sent. */
const START = {
  position: sql`coalesce((select j.seq from journals j where j.scope_id = current_tenant()), 0)`,
  trace_position: sql`coalesce((select max(f.id) from finished_runs f where f.tenant_id = current_tenant()), 0)`,
  next_send_at: sql`clock()`,
  failures: 0,
}

async function headerColumns({ sealer }: Ctx, id: string, headers: Record<string, string>) {
  const names = Object.keys(headers).sort()
  return {
    header_names: names,
    headers: names.length === 0 ? null : await sealer.seal(JSON.stringify(headers), id, HEADERS_PLACE),
  }
}
const filterColumns = ({ min_level, processes, contains }: schema.NewDrain['filter']) => ({
  min_level: min_level ?? null,
  processes,
  contains: contains ?? null,
})

export const createDrain = verb('drains:manage', async (ctx, input: schema.NewDrain) => {
  const { kind, url, signals, filter, headers, owner, deployment_ids, tag_value_ids, ...rest } = input
  requireDrainUrl(ctx.config, ctx.origin, kind, url)
  const id = crypto.randomUUID()
  const given = sql`${textArray(signals)}`
  const scope = sql`${deployment_ids.length + tag_value_ids.length}::integer`
  const isAllowed = sql`${allowsSignals({ kind: sql`${kind}::text`, signals: given, scope })}
    and ${canRead(given)}
    and ${hasKnownScope(input)}`
  const change = db
    .insert(drains)
    .values({
      ...rest,
      id,
      organization_id: sql`current_organization()`,
      tenant_id: sql`case when ${isAllowed} then current_tenant() end`,
      kind,
      url,
      signals,
      deployment_ids,
      tag_value_ids,
      ...filterColumns(filter),
      ...(await headerColumns(ctx, id, headers)),
      owner: owner || null,
      ...START,
    })
    .returning()
  const parts = { lock: LOCK_WORKSPACE, changes: createdMembers(RECORDED) }
  const rows = await commit(ctx, 'drain.created', change, { kind, signals }, parts)
  announceEvents(ctx)
  return toWire({ ...requireRow(rows, 'workspace_not_found'), agents: null })
})

const ORIGIN = /^[A-Za-z]+:\/\/[^/?#]+/

/** Headers never go to an address that was chosen without knowing them. */
const keepsAddress = (url: string): SQL =>
  refuseUnless(
    'drain_headers_required',
    sql`${drains.headers} is null or substring(${drains.url} from ${ORIGIN.source}) = ${ORIGIN.exec(url)?.[0] ?? url}`,
  )
const hasKindOf = (url: string): SQL => {
  const isSyslog = isSyslogUrl(url)
  const about = `an address of ${isSyslog ? 'syslog' : 'http'} for a drain of another kind`
  return sql`case when (${drains.kind} = 'syslog') = ${isSyslog} then true else refuse('blocked_url', ${about}) end`
}

export const changeDrain = verb(
  'drains:manage',
  async (ctx, { drain_id, ...input }: DrainParams & schema.DrainPatch) => {
    const { url, headers, filter, owner, enabled, ...rest } = input
    if (url != null) requireDrainUrl(ctx.config, ctx.origin, isSyslogUrl(url) ? 'syslog' : 'ndjson', url)
    const given = withoutNulls(rest)
    const signals = given.signals ? textArray(given.signals) : sql`${drains.signals}`
    const sizeOf = (ids: string[] | undefined, column: AnyPgColumn) =>
      ids ? sql`${ids.length}::integer` : sql`cardinality(${column})`
    const scope = sql`(${sizeOf(given.deployment_ids, drains.deployment_ids)}
      + ${sizeOf(given.tag_value_ids, drains.tag_value_ids)})`
    const isResumed = sql`not ${drains.enabled}`
    const change = db
      .update(drains)
      .set({
        ...given,
        ...(url != null && { url, next_send_at: sql`clock()`, failures: 0 }),
        ...(filter != null && filterColumns(filter)),
        ...(headers != null && (await headerColumns(ctx, drain_id, headers))),
        ...(owner != null && { owner: owner || null }),
        ...(enabled != null && { enabled }),
        // Signals from while it was off are passed over.
        ...(enabled && {
          position: sql`case when ${isResumed} then ${START.position} else ${drains.position} end`,
          trace_position: sql`case when ${isResumed} then ${START.trace_position} else ${drains.trace_position} end`,
        }),
        ...bumpVersion(drains),
      })
      .where(
        and(
          isDrain({ drain_id }),
          versionMatches(ctx, drains),
          allowsSignals({ kind: sql`${drains.kind}`, signals, scope }),
          canRead(signals),
          hasKnownScope(input),
          url == null ? undefined : hasKindOf(url),
          url != null && headers == null ? keepsAddress(url) : undefined,
        ),
      )
      .returning(COLUMNS)
    const data = { supplied: Object.keys(withoutNulls(input)) }
    const parts = { lock: lockDrain({ drain_id }), changes: changedMembers(drains, RECORDED) }
    const rows = await commit<ShownRow>(ctx, 'drain.updated', change as never, data, parts)
    announceEvents(ctx)
    return toWire(requireRow(rows, 'drain_not_found'))
  },
)

export const deleteDrain = verb('drains:manage', async (ctx, ref: DrainParams) => {
  const change = db
    .delete(drains)
    .where(and(isDrain(ref), versionMatches(ctx, drains)))
    .returning()
  const parts = { lock: lockDrain(ref), changes: deletedMembers(RECORDED) }
  requireRow(await commit(ctx, 'drain.deleted', change, {}, parts), 'drain_not_found')
})

export const openHeaders = async (
  { sealer }: Pick<Ctx, 'sealer'>,
  { id, headers }: Pick<DrainRow, 'id' | 'headers'>,
) => (headers === null ? {} : (JSON.parse(await sealer.open(headers, id, HEADERS_PLACE)) as Record<string, string>))

/** Sends a line of its own, also to a disabled drain. */
export const testDrain = verb('drains:manage', async (ctx, { drain_id }: DrainParams): Promise<schema.DrainTest> => {
  type Tested = { id: string; test: schema.DrainTest }
  const query = sql<Row>`
    select to_json(d)::text
    from drains d
    where d.id = ${drain_id}::uuid and d.tenant_id = current_tenant()`
  const { current, replayed } = await prepareWrite<Row, Tested>(ctx, query)
  if (replayed) return requireRow(replayed, 'drain_not_found').test
  const row = JSON.parse(requireRow(current, 'drain_not_found')[0] as string) as DrainRow
  if (row.kind === 'syslog') throw fail('drain_not_testable')
  const time = new Date(ctx.platform.clock.now()).toISOString()
  const message = `A test of the drain ${row.name}.`
  const resource = { 'service.name': 'slipway', 'slipway.workspace_id': row.tenant_id, 'slipway.drain_id': row.id }
  const group = { signal: 'logs' as const, resource, records: [{ time, level: 'INFO' as const, message }] }
  const batch = encodeBatch(row.kind, row.url, [group])
  const { status, error, duration_ms } = await postBatch(ctx, batch, await openHeaders(ctx, row), row.compression)
  const test = { delivered: error === null, error, answer_status: status, duration_ms }
  const change = sql<Tested>`
    select d.id, ${JSON.stringify(test)}::json as test
    from drains d
    where d.id = ${drain_id}::uuid and d.tenant_id = current_tenant()`
  const { delivered } = test
  const rows = await concludeWrite(() => commit(ctx, 'drain.tested', change, { delivered, error }))
  return requireRow(rows, 'drain_not_found').test
})
