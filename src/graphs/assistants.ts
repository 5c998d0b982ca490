// Assistants and their versions. The tables are the only state.
import { deleteCheckpoints } from './checkpoints.ts'
import { type Database, type Query, type Row, withinAnswer } from './database.ts'
import { HttpError, notFound } from './errors.ts'
import type { Usage } from './limits.ts'
import type { Searchable } from './search.ts'
import { deleteThreads } from './threads.ts'
import { type JsonObject, toJsonb } from './values.ts'

export type AssistantFields = {
  graph_id: string
  name: string
  description: string | null
  config: JsonObject
  context: unknown
  metadata: JsonObject
}

const MOST_KNOWN = 1000
const FIELDS = 'graph_id, name, description, config, context, metadata'
const COLUMNS = `assistant_id, version, ${FIELDS}, created_at, updated_at`
const fieldValues = (fields: AssistantFields) => [
  fields.graph_id,
  fields.name,
  fields.description,
  toJsonb(fields.config) ?? '{}',
  toJsonb(fields.context) ?? '{}',
  toJsonb(fields.metadata) ?? '{}',
]

/** Creates it with version 1, or returns null if the id is taken. */
export async function createAssistant(db: Database, id: string, fields: AssistantFields): Promise<Row | null> {
  const [row] = await db.query(
    `with created as (
      insert into graphs.assistants (assistant_id, ${FIELDS})
      values ($1, $2, $3, $4, $5, $6, $7)
      on conflict do nothing
      returning ${COLUMNS}
    ),
    first as (
      insert into graphs.assistant_versions (assistant_id, version, ${FIELDS})
      select assistant_id, version, ${FIELDS} from created
    )
    select * from created`,
    [id, ...fieldValues(fields)],
  )
  return row ?? null
}

export async function getAssistant(query: Query, id: string): Promise<Row> {
  const [row] = await query(`select ${COLUMNS} from graphs.assistants where assistant_id = $1`, [id])
  if (!row) throw notFound('Assistant', id)
  return row
}

/**
 * Assistants as this copy last read them. A run is created only if the row is still the same, so that nothing is done
 * with one that was changed at another copy.
 */
export class KnownAssistants {
  readonly #rows = new Map<string, Row>()

  async get(query: Query, id: string): Promise<Row | undefined> {
    const known = this.#rows.get(id)
    if (known) return known
    const [row] = await query(
      `select ${COLUMNS}, xmin::text as row_version from graphs.assistants where assistant_id = $1`,
      [id],
    )
    if (this.#rows.size >= MOST_KNOWN) this.#rows.clear()
    if (row) this.#rows.set(id, row)
    return row
  }

  forget(id: string): void {
    this.#rows.delete(id)
  }
}

/** A change is a new version, which becomes the latest. Metadata is merged. */
export const patchAssistant = (
  { db, usage }: { db: Database; usage: Usage },
  id: string,
  patch: Partial<AssistantFields>,
): Promise<Row> =>
  db.transaction(async query => {
    const [current] = await query('select * from graphs.assistants where assistant_id = $1 for update', [id])
    if (!current) throw notFound('Assistant', id)
    const fields: AssistantFields = {
      graph_id: patch.graph_id ?? current.graph_id,
      name: patch.name ?? current.name,
      description: patch.description ?? current.description,
      config: patch.config ?? current.config,
      context: patch.context ?? current.context,
      metadata: { ...current.metadata, ...patch.metadata },
    }
    const values = fieldValues(fields)
    usage.admitBytes(values.join('').length)
    const [row] = await query(
      `with added as (
        insert into graphs.assistant_versions (assistant_id, version, ${FIELDS})
        select $1::uuid, max(version) + 1, $2, $3, $4, $5::jsonb, $6::jsonb, $7::jsonb
        from graphs.assistant_versions
        where assistant_id = $1
        returning version
      )
      update graphs.assistants
      set version = added.version, graph_id = $2, name = $3, description = $4, config = $5::jsonb,
        context = $6::jsonb, metadata = $7::jsonb, updated_at = now()
      from added
      where assistant_id = $1
      returning assistants.assistant_id, assistants.version, ${FIELDS}, created_at, updated_at`,
      [id, ...values],
    )
    return row!
  })

export async function setLatestVersion(db: Database, id: string, version: number): Promise<Row> {
  const [row] = await db.query(
    `update graphs.assistants a
    set version = v.version, graph_id = v.graph_id, name = v.name, description = v.description, config = v.config,
      context = v.context, metadata = v.metadata, updated_at = now()
    from graphs.assistant_versions v
    where a.assistant_id = $1 and v.assistant_id = $1 and v.version = $2
    returning a.*`,
    [id, version],
  )
  if (!row) throw new HttpError(404, `Assistant ${id} has no version ${version}.`)
  return row
}

export async function listVersions(
  db: Database,
  id: string,
  { limit, offset, metadata }: { limit: number; offset: number; metadata?: JsonObject | null | undefined },
): Promise<Row[]> {
  await getAssistant(db.query, id)
  return db.query(
    withinAnswer(`select assistant_id, version, ${FIELDS}, created_at
    from graphs.assistant_versions
    where assistant_id = $1 and ($2::jsonb is null or metadata @> $2)
    order by version desc
    limit $3 offset $4`),
    [id, toJsonb(metadata), limit, offset],
  )
}

export const ASSISTANTS: Searchable = {
  table: 'graphs.assistants',
  columns: COLUMNS,
  key: 'assistant_id',
  conditions: {
    metadata: 'metadata @> ?::jsonb',
    graph_id: 'graph_id = ?::text',
    name: 'position(lower(?::text) in lower(name)) > 0',
  },
}

/** `threads`: those of its threads that the caller may delete are deleted with it. */
export const deleteAssistant = (
  db: Database,
  id: string,
  threads: { filters: JsonObject | null } | null,
): Promise<void> =>
  db.transaction(async query => {
    const deleted = await query('delete from graphs.assistants where assistant_id = $1 returning 1', [id])
    if (deleted.length === 0) throw notFound('Assistant', id)
    await query('delete from graphs.crons where assistant_id = $1', [id])
    if (!threads) return
    const rows = await query(
      `select thread_id
      from graphs.threads
      where metadata @> jsonb_build_object('assistant_id', $1::text)
        and ($2::jsonb is null or graphs.admits(metadata, $2))`,
      [id, toJsonb(threads.filters)],
    )
    const ids = rows.map(row => row.thread_id)
    await deleteThreads(query, ids)
    await deleteCheckpoints(query, ids)
  })
