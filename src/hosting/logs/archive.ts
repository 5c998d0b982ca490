// Lists and downloads archives of logs, and sets whether lines are archived.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { MISSING_STORAGE } from '../../kernel/db/storage.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail, notConfigured } from '../../kernel/http/errors.ts'
import { afterCursor, pageBounds, toListPage } from '../../kernel/http/paging.ts'
import type { StreamReply } from '../../kernel/http/routes.ts'
import type { Page } from '../../protocol/wire.ts'
import type { DeploymentRef } from '../deployments/schema.ts'
import * as s from './archive.schema.ts'
import { logArchiveSettings, logArchives } from './tables.ts'

type DeploymentParams = z.output<typeof DeploymentRef>
type ArchiveRow = typeof logArchives.$inferSelect & { dropped_lines: number }

const toWire = (row: ArchiveRow): s.LogArchive => ({
  id: row.id,
  deployment_id: row.deployment_id!,
  hour: toIsoTime(row.hour),
  lines: row.lines,
  bytes: row.bytes,
  dropped_lines: row.dropped_lines,
  created_at: toIsoTime(row.created_at),
  expires_at: toIsoTime(row.expires_at),
})

/** Selects from the deployment, to tell an unknown deployment from one without archives. */
export const listArchives = verb('deployments:read', async (ctx, input: DeploymentParams & Page) => {
  const { limit, offset } = pageBounds(input)
  const statement = sql<Row>`
    select to_json(page)
    from deployments d
    left join lateral (
      select log_archives.*, (
          select coalesce(sum(l.lines), 0)
          from log_losses l
          where l.deployment_id = log_archives.deployment_id and l.hour = log_archives.hour) as dropped_lines
      from log_archives
      where log_archives.deployment_id = d.id
        and log_archives.tenant_id = d.tenant_id
        and ${afterCursor(logArchives, input) ?? sql`true`}
      order by log_archives.created_at desc, log_archives.id desc
      limit ${limit} offset ${offset}) page on true
    where d.id = ${input.deployment_id}::uuid and d.tenant_id = current_tenant()`
  const rows = await run(ctx, statement)
  requireRow(rows, 'deployment_not_found')
  const archives = rows.flatMap(([json]) => (json === null ? [] : [JSON.parse(json as string) as ArchiveRow]))
  return toListPage(archives.map(withPostgresTime), input, toWire)
})

/** A cursor has times as Postgres writes them, with a blank. */
const withPostgresTime = (row: ArchiveRow): ArchiveRow => ({ ...row, created_at: row.created_at.replace('T', ' ') })

export const downloadArchive = verb(
  'deployments:read',
  async (ctx, { deployment_id, archive_id }: z.output<typeof s.ArchiveRef>): Promise<StreamReply> => {
    const statement = sql<Row>`
      select a.object_path, a.hour
      from log_archives a
      where a.id = ${archive_id}::uuid
        and a.deployment_id = ${deployment_id}::uuid
        and a.tenant_id = current_tenant()`
    const [path, hour] = requireRow(await run(ctx, statement), 'log_archive_not_found') as string[]
    const { storage } = ctx.platform
    if (!storage) throw notConfigured(MISSING_STORAGE)
    const stream = await storage.get(path!).catch(cause => {
      throw fail('storage_unavailable', { cause })
    })
    if (!stream) throw fail('log_archive_not_found')
    const name = `${toIsoTime(hour!).slice(0, 13)}-${archive_id.slice(0, 8)}.ndjson.gz`
    const disposition = `attachment; filename="${name}"`
    return { stream, headers: { 'Content-Type': 'application/gzip', 'Content-Disposition': disposition } }
  },
)

// ---- settings

const RECORDED = recordColumns(logArchiveSettings, ['deployment_id', 'enabled', 'retention_days'])
type SettingsRow = typeof logArchiveSettings.$inferSelect

const DEFAULTS = { enabled: false, retention_days: s.DEFAULT_ARCHIVE_DAYS }
const inherited = sql`(
      select json_build_object('enabled', s.enabled, 'retention_days', s.retention_days)
      from log_archive_settings s
      where s.tenant_id = current_tenant() and s.deployment_id is null)`

type Given = { enabled: boolean | null; retention_days: number | null } | null
const withDefaults = (given: Given): s.ArchiveSettings => ({
  enabled: given?.enabled ?? DEFAULTS.enabled,
  retention_days: given?.retention_days ?? DEFAULTS.retention_days,
})

export const readWorkspaceSettings = verb('deployments:read', async (ctx): Promise<s.ArchiveSettings> => {
  const [row] = await run(ctx, sql<Row>`select ${inherited}`)
  return withDefaults(parse(row![0]))
})

const parse = (json: unknown): Given => (json === null ? null : JSON.parse(json as string))

/** Refused where nothing could be archived: a setting that does nothing would be taken for one that does. */
const requireStorage = ({ platform }: Ctx, enabled: boolean | null) => {
  if (enabled && !platform.storage) throw notConfigured(MISSING_STORAGE)
}

const upsert = (owner: SQL, { enabled, retention_days }: { enabled: boolean | null; retention_days: number | null }) =>
  sql<SettingsRow>`
    insert into log_archive_settings (organization_id, tenant_id, deployment_id, enabled, retention_days)
    select o.organization_id, o.tenant_id, o.deployment_id, ${enabled}::boolean, ${retention_days}::integer
    from (${owner}) o
    on conflict on constraint log_archive_settings_one do update set
      enabled = excluded.enabled, retention_days = excluded.retention_days, updated_at = clock()
    returning *`

export const setWorkspaceSettings = verb(
  'deployments:update',
  async (ctx, input: s.ArchiveSettings): Promise<s.ArchiveSettings> => {
    requireStorage(ctx, input.enabled)
    const owner = sql`
      select w.organization_id, w.id as tenant_id, null::uuid as deployment_id
      from workspaces w
      where w.id = current_tenant()`
    const parts = {
      changes: changedMembers(logArchiveSettings, RECORDED),
      lock: sql`select from workspaces where id = current_tenant() for no key update`,
    }
    const rows = await commit(ctx, 'log_archive_settings.updated', upsert(owner, input), {}, parts)
    return withDefaults(requireRow(rows, 'workspace_not_found'))
  },
)

const toDeploymentSettings = (own: Given, workspace: Given): s.DeploymentArchiveSettings => ({
  enabled: own?.enabled ?? null,
  retention_days: own?.retention_days ?? null,
  effective: withDefaults({
    enabled: own?.enabled ?? workspace?.enabled ?? null,
    retention_days: own?.retention_days ?? workspace?.retention_days ?? null,
  }),
})

export const readDeploymentSettings = verb(
  'deployments:read',
  async (ctx, { deployment_id }: DeploymentParams): Promise<s.DeploymentArchiveSettings> => {
    const statement = sql<Row>`
      select (
          select json_build_object('enabled', s.enabled, 'retention_days', s.retention_days)
          from log_archive_settings s
          where s.tenant_id = d.tenant_id and s.deployment_id = d.id), ${inherited}
      from deployments d
      where d.id = ${deployment_id}::uuid and d.tenant_id = current_tenant()`
    const [own, workspace] = requireRow(await run(ctx, statement), 'deployment_not_found')
    return toDeploymentSettings(parse(own), parse(workspace))
  },
)

type NewSettings = DeploymentParams & z.output<typeof s.NewDeploymentArchiveSettings>

export const setDeploymentSettings = verb(
  'deployments:update',
  async (ctx, { deployment_id, ...input }: NewSettings): Promise<s.DeploymentArchiveSettings> => {
    requireStorage(ctx, input.enabled)
    const isDeployment = sql`d.id = ${deployment_id}::uuid and d.tenant_id = current_tenant()`
    const owner = sql`
      select d.organization_id, d.tenant_id, d.id as deployment_id
      from deployments d
      where ${isDeployment}`
    const change = sql<SettingsRow & { workspace: Given }>`
      select upserted.*, ${inherited} as workspace
      from upserted`
    const parts = {
      ctesBefore: [sql`upserted as (${upsert(owner, input)})`],
      changes: changedMembers(logArchiveSettings, RECORDED),
      lock: sql`select from deployments d where ${isDeployment} for no key update`,
    }
    const data = sql`json_build_object('deployment_id', changed.deployment_id)`
    const rows = await commit(ctx, 'log_archive_settings.updated', change, data, parts)
    const row = requireRow(rows, 'deployment_not_found')
    return toDeploymentSettings(row, row.workspace)
  },
)
