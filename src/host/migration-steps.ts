// Runs the steps of migrations that take long, outside of a transaction, so that none locks a table against requests.
import type pg from 'pg'
import type { Step } from './migration-plan.ts'

/** A step can be run again after an interruption: what is done is found in the catalog, or changes no row. */
export async function runStep(client: pg.Client, step: Step, inTransaction: InTransaction): Promise<void> {
  if (step.kind === 'index') return buildIndex(client, step, inTransaction)
  if (step.kind === 'constraint') {
    await inTransaction(() => client.query(step.statement))
    return
  }
  for (;;) {
    const { rowCount } = await inTransaction(async () => {
      await client.query('set local role slipway_system')
      return client.query(step.statement)
    })
    if (!rowCount) return
  }
}

/** Runs it in a transaction, again while a table is locked. */
export type InTransaction = <T>(work: () => Promise<T>) => Promise<T>
type Index = Pick<Step & { kind: 'index' }, 'unique' | 'name' | 'table' | 'definition'>

async function buildIndex(client: pg.Client, index: Index, inTransaction: InTransaction): Promise<void> {
  const { name, table, definition } = index
  const { rows } = await client.query(
    `select t.relkind as kind, i.indisvalid as is_valid
    from pg_class t
    left join (pg_index i join pg_class c on c.oid = i.indexrelid and c.relname = $2) on i.indrelid = t.oid
    where t.oid = $1::regclass`,
    [table, name],
  )
  const { kind, is_valid } = rows[0] as { kind: string; is_valid: boolean | null }
  if (is_valid) return
  const create = `create ${index.unique ? 'unique ' : ''}index`
  if (kind === 'p') {
    if (is_valid === null) await inTransaction(() => client.query(`${create} ${name} on only ${table}${definition}`))
    return buildIndexOfPartitions(client, index, inTransaction)
  }
  // An interrupted build leaves an index that is not valid.
  if (is_valid === false) await client.query(`drop index concurrently ${name}`)
  await client.query(`${create} concurrently ${name} on ${table}${definition}`)
}

/** Postgres builds indexes concurrently on partitions only, not on their table. They are attached afterwards. */
async function buildIndexOfPartitions(client: pg.Client, parent: Index, inTransaction: InTransaction): Promise<void> {
  const { rows: partitions } = await client.query(
    `select h.inhrelid::regclass::text as table, left($2, 40) || '_' || left(md5(h.inhrelid::text), 12) as name,
      (
        select x.indexrelid::regclass::text
        from pg_inherits a
        join pg_index x on x.indexrelid = a.inhrelid and x.indrelid = h.inhrelid
        where a.inhparent = $2::regclass
      ) as attached
    from pg_inherits h
    where h.inhparent = $1::regclass`,
    [parent.table, parent.name],
  )
  for (const { table, name, attached } of partitions as { table: string; name: string; attached: string | null }[]) {
    await buildIndex(client, { ...parent, table, name: attached ?? name }, inTransaction)
    if (!attached) await inTransaction(() => client.query(`alter index ${parent.name} attach partition ${name}`))
  }
}
