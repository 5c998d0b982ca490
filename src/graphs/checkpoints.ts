// The tables of the savers, as far as whole threads and runs go. Their rows are the savers' own.
import type { Language } from './configuration.ts'
import type { Database, Query } from './database.ts'

const TABLES: Record<string, string> = {
  checkpoints: 'checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata',
  checkpoint_blobs: 'checkpoint_ns, channel, version, type, blob',
  checkpoint_writes: 'checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob',
}
/** The saver of Python has one more column. */
const columnsOf = (language: Language, table: string) =>
  language === 'python' && table === 'checkpoint_writes' ? `${TABLES[table]}, task_path` : TABLES[table]!

const schemaOf = (language: Language) => `graphs_${language}`

/** Languages whose tables are there, also of graphs that the file no longer has. */
async function findLanguages(query: Query): Promise<Language[]> {
  const rows = await query(
    `select language
    from unnest(array['javascript', 'python']) as language
    where to_regclass('graphs_' || language || '.checkpoint_writes') is not null`,
  )
  return rows.map(row => row.language)
}

export async function deleteCheckpoints(query: Query, threadIds: string[]): Promise<void> {
  if (threadIds.length === 0) return
  for (const language of await findLanguages(query))
    await query(
      `with ${Object.keys(TABLES)
        .map(table => `of_${table} as (delete from ${schemaOf(language)}.${table} where thread_id = any ($1::text[]))`)
        .join(', ')}
      select 1`,
      [threadIds],
    )
}

/** Deletes what a run added to a thread, for a rollback. */
export async function deleteCheckpointsOfRun(
  query: Query,
  language: Language,
  { thread_id, run_id }: { thread_id: string; run_id: string },
): Promise<void> {
  const schema = schemaOf(language)
  await query(
    `with deleted as (
      delete from ${schema}.checkpoints
      where thread_id = $1 and metadata ->> 'run_id' = $2
      returning checkpoint_ns, checkpoint_id
    )
    delete from ${schema}.checkpoint_writes w
    using deleted d
    where w.thread_id = $1 and w.checkpoint_ns = d.checkpoint_ns and w.checkpoint_id = d.checkpoint_id`,
    [thread_id, run_id],
  )
}

/** Bytes of a thread and its checkpoints, as they are stored. */
export async function measureThread({ query }: Database, threadId: string): Promise<number> {
  const sizes = [`select pg_column_size(t) as bytes from graphs.threads t where thread_id = $1::uuid`]
  for (const language of await findLanguages(query))
    for (const table of Object.keys(TABLES))
      sizes.push(`select pg_column_size(r) from ${schemaOf(language)}.${table} r where thread_id = $1::text`)
  const [row] = await query(`select coalesce(sum(bytes), 0)::float8 as bytes from (${sizes.join(' union all ')}) s`, [
    threadId,
  ])
  return row!.bytes
}

export async function copyCheckpoints(query: Query, from: string, to: string): Promise<void> {
  for (const language of await findLanguages(query)) {
    for (const table of Object.keys(TABLES)) {
      const columns = columnsOf(language, table)
      await query(
        `insert into ${schemaOf(language)}.${table} (thread_id, ${columns})
        select $2, ${columns} from ${schemaOf(language)}.${table} where thread_id = $1`,
        [from, to],
      )
    }
  }
}
