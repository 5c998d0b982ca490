// The database in a support bundle: sizes, migrations, locks, slow statements, agents, failed revisions.
import pg from 'pg'
import { DEADLINES, LISTENER_LOST } from '../../hosting/deployments/lifecycle.ts'
import { TABLE_BOUNDS } from './table-bounds.ts'

const STATEMENT_TIMEOUT_MS = 10_000
/** Messages that Slipway writes itself. Those of agents may quote an application. */
const KNOWN_MESSAGES = [...Object.values(DEADLINES).map(({ message }) => message), LISTENER_LOST.message]

const QUERIES: Record<string, string> = {
  server: `
    select version() as version, pg_database_size(current_database()) as bytes,
      current_setting('max_connections') as max_connections, current_setting('shared_buffers') as shared_buffers,
      pg_postmaster_start_time() as started_at`,
  migrations: `
    select count(*) as applied, max(created_at) as newest
    from drizzle.__drizzle_migrations`,
  connections: `
    select usename as login, state, wait_event_type, wait_event, count(*) as count,
      max(extract(epoch from now() - xact_start))::integer as longest_transaction_seconds
    from pg_stat_activity
    where datname = current_database()
    group by usename, state, wait_event_type, wait_event`,
  locks: `
    select l.locktype, l.mode, l.relation::regclass::text as relation, l.pid, pg_blocking_pids(l.pid) as blocked_by
    from pg_locks l
    where not l.granted
    limit 100`,
  agents: `
    select id, tenant_id, substring(compute_type from '^[a-z_]{1,40}$') as compute_type, last_seen_at, lease_expires_at,
      substring(agent_version from '^[0-9][0-9A-Za-z.+-]{0,30}$') as agent_version
    from listeners
    order by last_seen_at desc nulls last
    limit 500`,
  pending_revisions: `
    select status, count(*) as count, min(status_since) as oldest
    from revisions
    group by status`,
  failed_revisions: `
    select id, deployment_id, substring(source from '^[a-z_]{1,40}$') as source, status, status_since,
      cardinality(reasons) as reasons,
      case when status_message = any($1::text[]) then status_message
        else 'from the agent, left out: ' || length(status_message) || ' characters' end as message
    from revisions
    where status like '%FAILED'
    order by created_at desc
    limit 100`,
}
const TABLES = `
  select c.relname as table, parts.rows, parts.bytes, s.n_dead_tup as dead_rows, s.last_autovacuum
  from pg_class c
  cross join lateral (
    select sum(greatest(p.reltuples, 0))::bigint as rows, sum(pg_total_relation_size(p.oid)) as bytes
    from pg_class p
    where p.oid = c.oid or p.oid in (select relid from pg_partition_tree(c.oid))
  ) parts
  left join pg_stat_user_tables s on s.relid = c.oid
  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
  order by parts.bytes desc`
/** Constants are replaced by numbers there. Text in quotes is left out all the same. */
const SLOW = `
  select regexp_replace(left(query, 300), '''[^'']*''', '''*''', 'g') as query, calls,
    mean_exec_time::integer as mean_ms, max_exec_time::integer as max_ms
  from pg_stat_statements
  where dbid = (select oid from pg_database where datname = current_database())
  order by total_exec_time desc
  limit 50`

export type DatabaseReport = Record<string, unknown>

/** A part that cannot be read is an error with its code: the rest of the bundle is worth more then. */
export async function describeDatabase(url: string): Promise<DatabaseReport> {
  const client = new pg.Client({
    connectionString: url,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    connectionTimeoutMillis: 5000,
  })
  client.on('error', () => {})
  try {
    await client.connect()
  } catch (error) {
    return { error: codeOf(error) }
  }
  const read = async (text: string, values: unknown[] = []) =>
    client.query(text, values).then(
      ({ rows }) => rows,
      error => ({ error: codeOf(error) }),
    )
  try {
    const role = await read(`select set_config('role', 'slipway_system', false)`)
    const report: DatabaseReport = 'error' in role ? { role } : {}
    for (const [name, text] of Object.entries(QUERIES))
      report[name] = await read(text, name === 'failed_revisions' ? [KNOWN_MESSAGES] : [])
    const tables = await read(TABLES)
    report.tables = Array.isArray(tables)
      ? tables.map(row => ({ ...row, bound: TABLE_BOUNDS[row.table]?.bound ?? null }))
      : tables
    report.slow_statements = await read(SLOW)
    return report
  } finally {
    await client.end().catch(() => {})
  }
}

const codeOf = (error: unknown): string => (error as { code?: string }).code ?? 'unknown'
