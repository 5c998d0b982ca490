// The statement that creates a job: its request, completed by its config, with the models that it will call.
import { type SQL, sql } from 'drizzle-orm'
import { refuseUnless, requirePermission } from '../../kernel/db/db.ts'
import type { insightJobs } from './tables.ts'

export type JobRow = typeof insightJobs.$inferSelect

type JobSource = {
  session_id: string
  config_id: string | null
  /** Wins over the config. */
  given: Record<string, unknown>
  is_scheduled: boolean
  /** A job without a model is refused if true. Else it fails when it runs. */
  isModelRequired: boolean
  /** A condition on the project `p` and the `request` of `r`. */
  condition: SQL
}

export const isProject = (id: string): SQL => sql`p.id = ${id}::uuid and p.tenant_id = current_tenant()`

/** A job acts with the rights of its workspace, so the caller who starts it needs the permissions to do the same. */
export const MAY_START = sql`require_permission_for('runs:read', p.tag_value_ids)
      and (m.is_lexical or ${requirePermission('models:invoke')})`

export const insertJob = (source: JobSource): SQL<JobRow> => sql<JobRow>`
      insert into insight_jobs (
        organization_id, tenant_id, session_id, config_id, name, method, request, is_scheduled,
        summary_configuration_id, cluster_configuration_id, start_time, end_time
      )
      select
        p.organization_id, p.tenant_id, p.id, c.id,
        coalesce(r.request ->> 'name', c.name, to_char(clock() at time zone 'utc', '"Insights" YYYY-MM-DD HH24:MI')),
        case when m.is_lexical then 'lexical' else 'model' end,
        r.request::json, ${source.is_scheduled}, s.id, l.id,
        coalesce((r.request ->> 'start_time')::timestamptz, r.until - (r.request ->> 'last_n_hours')::integer
          * interval '1 hour'),
        r.until
      from projects p
      left join insight_configs c
        on c.id = ${source.config_id}::uuid and c.session_id = p.id and c.tenant_id = p.tenant_id
      cross join lateral (
        select g.request, coalesce((g.request ->> 'end_time')::timestamptz, clock()) as until
        from (
          select
            '{"model": "openai"}'::jsonb || jsonb_strip_nulls(coalesce(c.config::jsonb, '{}'))
              || ${JSON.stringify(omitNulls(source.given))}::jsonb as request
        ) g
      ) r
      cross join lateral (select r.request ->> 'model' = 'none' as is_lexical) m
      left join lateral ${findModel(sql`coalesce(r.request ->> 'summary_model', r.request ->> 'model')`)} s
        on not m.is_lexical
      left join lateral ${findModel(sql`coalesce(r.request ->> 'cluster_model', r.request ->> 'model')`)} l
        on not m.is_lexical
      where ${isProject(source.session_id)}
        ${source.config_id ? sql`and ${refuseUnless('insight_config_not_found', sql`c.id is not null`)}` : sql``}
        and ${source.condition}
        and ${source.isModelRequired ? HAS_MODELS : sql`true`}
      returning *`

const omitNulls = (given: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null && value !== undefined))

const HAS_MODELS = sql`case
          when m.is_lexical or (s.id is not null and l.id is not null) then true
          else refuse('model_required', case
            when s.id is null then coalesce(r.request ->> 'summary_model', r.request ->> 'model')
            else coalesce(r.request ->> 'cluster_model', r.request ->> 'model')
          end)
        end`

/**
 * Finds a model by provider, id, name, or the name at its provider. One that speaks the protocol of OpenAI stands in
 * for it. The oldest is first.
 */
export const findModel = (wanted: SQL): SQL => sql`(
        select k.id
        from model_configurations k
        where k.tenant_id = current_tenant()
          and case
            when ${wanted} in ('openai', 'anthropic')
              then k.provider = ${wanted} or (${wanted} = 'openai' and k.provider = 'openai_compatible')
            else k.id::text = lower(${wanted}) or lower(k.name) = lower(${wanted}) or k.model = ${wanted}
          end
        order by k.provider = ${wanted} desc, lower(k.name) = lower(${wanted}) desc, k.created_at, k.id
        limit 1
      )`
