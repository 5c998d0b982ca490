// Lists, creates, changes and deletes the saved configs of insights of a project.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, requirePermission, run, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { parseCron } from '../../protocol/cron.ts'
import type { ProjectRef } from '../projects/projects.schema.ts'
import type * as schema from './configs.schema.ts'
import { isProject } from './job-insert.ts'
import { ofProject } from './jobs.ts'
import { PREBUILT_CONFIGS } from './prebuilt-configs.ts'
import { checkRequest } from './request-checks.ts'
import { checkCron, describePace, nextStart } from './schedule.ts'
import { insightConfigs } from './tables.ts'

type ProjectParams = z.output<typeof ProjectRef>
type ConfigParams = z.output<typeof schema.ConfigRef>
type ConfigRow = typeof insightConfigs.$inferSelect

const RECORDED = recordColumns(insightConfigs, ['session_id', 'name', 'description', 'config', 'schedule_cron'])

const toWire = (ctx: Ctx, row: ConfigRow): schema.Config & { [etagVersion]: number } => ({
  id: row.id,
  name: row.name,
  description: row.description,
  config: row.config as schema.Config['config'],
  prebuilt: false,
  schedule_cron: row.schedule_cron,
  // The installation may have changed how often jobs start.
  next_start_at: row.schedule_cron && nextStart(ctx, parseCron(row.schedule_cron), row.last_started_at),
  last_started_at: toIsoTime(row.last_started_at),
  schedule_note: row.schedule_cron && describePace(ctx, row.schedule_cron),
  [etagVersion]: row.version,
})

/** The row `c` of a project that the caller may see. */
const isConfig = ({ session_id, config_id }: ConfigParams): SQL => sql`c.id = ${config_id}::uuid
      and c.session_id = ${session_id}::uuid
      and c.tenant_id = current_tenant()
      and exists (select from projects p where ${isProject(session_id)})`

/** A schedule starts jobs by the config, so changing either needs the permissions to start such a job. */
const mayStart = (session_id: string, config: SQL): SQL => sql`(
        select require_permission_for('runs:read', p.tag_value_ids)
        from projects p
        where ${isProject(session_id)}
      )
      and case when ${config} ->> 'model' = 'none' then true else ${requirePermission('models:invoke')} end`

export const listConfigs = verb(
  'projects:read',
  async (ctx, { session_id, include_prebuilts }: ProjectParams & z.output<typeof schema.ConfigQuery>) => {
    const query = sql<Row>`
      select to_json(c)::text
      from projects p
      left join insight_configs c on c.session_id = p.id and c.tenant_id = p.tenant_id
      where ${isProject(session_id)}
      order by c.created_at desc, c.id desc`
    const rows = await run(ctx, query)
    requireRow(rows, 'project_not_found')
    const own = rows.flatMap(([json]) => (json === null ? [] : [toWire(ctx, JSON.parse(json as string))]))
    return { configs: include_prebuilts ? [...own, ...PREBUILT_CONFIGS] : own }
  },
)

export const readConfig = verb('projects:read', async (ctx, ref: ConfigParams) => {
  const query = sql<Row>`select to_json(c)::text from insight_configs c where ${isConfig(ref)}`
  const [json] = requireRow(await run(ctx, query), 'insight_config_not_found')
  return toWire(ctx, JSON.parse(json as string))
})

export const createConfig = verb('rules:create', async (ctx, input: ProjectParams & schema.NewConfig) => {
  const { session_id, name, description = null, config, schedule_cron } = input
  checkRequest(config, ['config'])
  const cron = schedule_cron?.trim() || null
  const next = cron && nextStart(ctx, checkCron(ctx, cron), null)
  const change = sql<ConfigRow>`
    insert into insight_configs as c (
      organization_id, tenant_id, session_id, name, description, config, schedule_cron, next_start_at
    )
    select
      p.organization_id, p.tenant_id, p.id, ${name}, ${description}, ${JSON.stringify(config)}::json, ${cron},
      ${next}::timestamptz
    from projects p
    where ${isProject(session_id)} and ${mayStart(session_id, sql`${JSON.stringify(config)}::json`)}
    returning *`
  const parts = {
    lock: sql`select from projects p where ${isProject(session_id)} for no key update`,
    changes: createdMembers(RECORDED),
  }
  const rows = await commit(ctx, 'insight_config.created', change, ofProject(session_id), parts)
  return toWire(ctx, requireRow(rows, 'project_not_found'))
})

export const changeConfig = verb(
  'rules:create',
  async (ctx, { session_id, config_id, ...patch }: ConfigParams & schema.ConfigPatch) => {
    const { name, description, config, schedule_cron } = patch
    if (config) checkRequest(config, ['config'])
    const cron = schedule_cron?.trim() || null
    const next = cron && nextStart(ctx, checkCron(ctx, cron), null)
    const ref = { session_id, config_id }
    const started = config ? sql`${JSON.stringify(config)}::json` : cron ? sql`c.config` : null
    const set = [
      name != null && sql`name = ${name}`,
      description !== undefined && sql`description = ${description}`,
      config && sql`config = ${JSON.stringify(config)}::json`,
      schedule_cron !== undefined && sql`schedule_cron = ${cron}, next_start_at = ${next}::timestamptz`,
      sql`version = c.version + 1, updated_at = clock()`,
    ].filter(Boolean) as SQL[]
    const isVersion = versionMatches(ctx, { version: sql`c.version` }) ?? sql`true`
    const change = sql<ConfigRow>`
      update insight_configs c
      set ${sql.join(set, sql`, `)}
      where ${isConfig(ref)} and ${isVersion} and ${started ? mayStart(session_id, started) : sql`true`}
      returning c.*`
    const parts = {
      lock: sql`select from insight_configs c where ${isConfig(ref)} for update`,
      changes: changedMembers(insightConfigs, RECORDED),
    }
    const rows = await commit(ctx, 'insight_config.updated', change, ofProject(session_id), parts)
    return toWire(ctx, requireRow(rows, 'insight_config_not_found'))
  },
)

/** The jobs of the config stay. */
export const deleteConfig = verb('rules:create', async (ctx, ref: ConfigParams) => {
  const isVersion = versionMatches(ctx, { version: sql`c.version` }) ?? sql`true`
  const change = sql<ConfigRow>`
    delete from insight_configs c
    where ${isConfig(ref)} and ${isVersion}
    returning c.*`
  const parts = { changes: deletedMembers(RECORDED) }
  const rows = await commit(ctx, 'insight_config.deleted', change, ofProject(ref.session_id), parts)
  return { id: requireRow(rows, 'insight_config_not_found').id, message: 'Deleted.' }
})
