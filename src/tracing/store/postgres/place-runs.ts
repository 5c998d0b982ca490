// Decides for each run of a batch where it belongs: its project, which may be new, its tier, its place in the trace.
import { type SQL, sql } from 'drizzle-orm'
import { refuseUnless } from '../../../kernel/db/db.ts'
import { columns, PLACE_COLUMNS, VALUE_COLUMNS } from './run-columns.ts'
import { TIER } from './tiers.ts'

// ---- projects

const PROJECTS = sql`
    named as (
      select distinct session_name as name
      from given
      where session_id is null and session_name is not null
    ),
    known as (
      select p.id, p.name, p.trace_tier, p.earlier_tiers
      from named n
      join projects p on p.tenant_id = current_tenant() and p.name = n.name
      union
      select p.id, p.name, p.trace_tier, p.earlier_tiers
      from (select distinct session_id from given) g
      join projects p on p.tenant_id = current_tenant() and p.id = g.session_id
    ),
    -- The update changes nothing. It returns a project that another request has created meanwhile.
    created as (
      insert into projects (organization_id, tenant_id, name)
      select current_organization(), current_tenant(), name
      from named
      where name not in (select name from known)
      order by name
      on conflict (tenant_id, name) do update set updated_at = projects.updated_at
      returning id, name, trace_tier, earlier_tiers
    ),
    destinations as (
      select * from known
      union all
      select * from created
    ),`

/** Access policies admit the caller to projects. One project that they do not admit refuses all. */
const requireAdmittedProjects = (found: SQL | undefined): SQL => sql`(
        select require_admitted_projects(
          array(
            select session_id
            from given
            where session_id is not null
            ${found ? sql`union select session_id from found` : sql``}
          ),
          array(select name from named)
        )
      )`

// ---- places

/** Finds the runs of patches that do not say where their run is. `runs` is a relation. */
export const findIn = (runs: SQL): SQL => sql`
    found as (
      select g.id, ${columns(PLACE_COLUMNS, 'r')}
      from given g
      cross join lateral (
        select *
        from ${runs} r
        where r.tenant_id = current_tenant() and r.id = g.id
        limit 1
      ) r
      where g.order_time is null or (g.session_id is null and g.session_name is null)
    ),`
export const FOUND_BY_TIME = sql`
    found as (
      select g.id, ${columns(PLACE_COLUMNS, 'r')}
      from given g
      join runs r on r.tenant_id = current_tenant() and r.id = g.id and r.order_time = g.order_time
    ),`
const REQUIRE_RUN = refuseUnless('run_not_found', sql`coalesce(g.order_time, f.order_time) is not null`)
const TRACE_COLUMNS = PLACE_COLUMNS.slice(2)
const TRACE_COLUMNS_OR_FOUND = sql.join(
  TRACE_COLUMNS.map(name => {
    const column = sql.identifier(name)
    return sql`coalesce(f.${column}, g.${column}) as ${column}`
  }),
  sql`, `,
)

/** The columns of rows that come with a trace key. */
export const IN_OWN_PROJECT = sql`
        id, require_own_project(session_id, session_name) as session_id, null::text as session_name,
        ${columns(TRACE_COLUMNS)}, ${columns(VALUE_COLUMNS)}`

/**
 * CTEs that place the rows of `given`, one for each run: `placed` has their project, tier and place in the trace. A run
 * in `found` keeps its place. Patches that name no project wait if they may.
 */
export const placeGiven = (found: SQL | undefined, { mayWait = false } = {}): SQL => sql`
    ${PROJECTS}
    ${found ?? sql``}
    placed as (
      select
        g.id, ${columns(VALUE_COLUMNS, 'g')}, g.session_id is null and g.session_name is null as has_no_project,
        ${
          found
            ? sql`coalesce(d.id, f.session_id) as session_id, coalesce(f.trace_tier, ${TIER}) as trace_tier,
        ${TRACE_COLUMNS_OR_FOUND}`
            : sql`d.id as session_id, ${TIER} as trace_tier, ${columns(TRACE_COLUMNS, 'g')}`
        }
      from given g
      left join destinations d
        on case when g.session_id is null then d.name = g.session_name else d.id = g.session_id end
      left join upgraded_traces u on u.tenant_id = current_tenant() and u.trace_id = g.trace_id
      ${found ? sql`left join found f on f.id = g.id` : sql``}
      where ${requireAdmittedProjects(found)}
        ${found ? sql`and ${REQUIRE_RUN}` : sql``}
    ),
    ${mayWait ? WAITING : sql``}`

// ---- patches before their posts

/** The project of such a patch is not known yet, so access policies cannot admit the caller to it. */
const WAITING = sql`
    waiting as (
      insert into waiting_patches (organization_id, tenant_id, run_id, patch)
      select current_organization(), current_tenant(), g.id, to_json(g)
      from given g
      join placed p on p.id = g.id
      where p.session_id is null
        and p.has_no_project
        and ${refuseUnless('run_not_found', sql`setting('access_project') is null`)}
    ),`
