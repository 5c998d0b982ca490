// The state of threads: the executor of the thread's graph reads it from checkpoints, and writes it there.
import { deleteCheckpoints } from './checkpoints.ts'
import type { Row } from './database.ts'
import { HttpError } from './errors.ts'
import { executorOf, type Server } from './server.ts'
import { deleteThreads, getThread, recordState, type StateSummary } from './threads.ts'
import type { JsonObject } from './values.ts'

export type Checkpoint = JsonObject | null | undefined

const EMPTY_STATE = {
  values: {},
  next: [],
  tasks: [],
  metadata: {},
  created_at: null,
  checkpoint: null,
  parent_checkpoint: null,
  interrupts: [],
}

const graphIdOf = (thread: Row): string | undefined => thread.metadata.graph_id ?? undefined
/** Other members would be those by which a graph is run, such as its saver. */
const PLACE = ['checkpoint_ns', 'checkpoint_id', 'checkpoint_map']
function configOf(thread: Row, checkpoint: Checkpoint): JsonObject {
  const place = Object.entries(checkpoint ?? {}).filter(([name, value]) => PLACE.includes(name) && value != null)
  return { configurable: { checkpoint_ns: '', ...Object.fromEntries(place), thread_id: thread.thread_id } }
}

/** Returns JSON. */
export async function readState(
  server: Server,
  threadId: string,
  { checkpoint, subgraphs }: { checkpoint?: Checkpoint; subgraphs?: boolean | null | undefined },
): Promise<string> {
  const thread = await getThread(server.db.query, threadId)
  const graphId = graphIdOf(thread)
  if (graphId === undefined) return JSON.stringify(EMPTY_STATE)
  const config = configOf(thread, checkpoint)
  return executorOf(server, graphId).ask('state', { graph_id: graphId, config, subgraphs: subgraphs ?? false })
}

/** Returns JSON. */
export async function readHistory(
  server: Server,
  threadId: string,
  query: { limit: number; before?: unknown; metadata?: JsonObject | null | undefined; checkpoint?: Checkpoint },
): Promise<string> {
  const thread = await getThread(server.db.query, threadId)
  const graphId = graphIdOf(thread)
  if (graphId === undefined) return '[]'
  const { limit, metadata, checkpoint } = query
  const before = typeof query.before === 'string' ? { checkpoint_id: query.before } : query.before
  return executorOf(server, graphId).ask('history', {
    graph_id: graphId,
    config: configOf(thread, checkpoint),
    limit,
    before: before ? configOf(thread, toPlace(before)) : null,
    filter: metadata ?? null,
  })
}

/** A place is given as a checkpoint, or as a config that has one. */
function toPlace(before: unknown): Checkpoint {
  const { configurable } = before as { configurable?: JsonObject }
  return configurable ?? (before as JsonObject)
}

export type Superstep = { updates: { values?: unknown; command?: unknown; as_node?: string | null | undefined }[] }

/** Returns JSON of the new checkpoint. Refused while a run could write too. */
export async function updateState(
  server: Server,
  threadId: string,
  { supersteps, checkpoint }: { supersteps: Superstep[]; checkpoint?: Checkpoint },
): Promise<string> {
  const { query } = server.db
  server.usage.admitBytes()
  const thread = await getThread(query, threadId)
  const graphId = graphIdOf(thread)
  if (graphId === undefined)
    throw new HttpError(400, `Thread ${threadId} has no graph yet. Create it with a graph_id, or start a run first.`)
  const busy = await query(`select from graphs.runs where thread_id = $1 and status = 'running'`, [threadId])
  if (busy.length > 0) throw new HttpError(409, `Thread ${threadId} is running. Wait until the run has ended.`)
  const answer = await executorOf(server, graphId).ask('update', {
    graph_id: graphId,
    config: configOf(thread, checkpoint),
    supersteps,
  })
  const { checkpoint: written, state } = JSON.parse(answer) as { checkpoint: JsonObject; state: StateSummary }
  await recordState(query, threadId, state)
  return JSON.stringify({ checkpoint: written, configurable: written, checkpoint_id: written.checkpoint_id })
}

/** Together: nobody would ever delete the state of a thread that is gone. */
export const removeThreads = (server: Server, ids: string[]): Promise<string[]> =>
  server.db.transaction(async query => {
    const deleted = await deleteThreads(query, ids)
    await deleteCheckpoints(query, deleted)
    return deleted
  })

/** Keeps the latest checkpoint of each thread, and returns the number of threads. */
export async function keepLatest(server: Server, ids: string[]): Promise<number> {
  const rows = await server.db.query(
    `select metadata ->> 'graph_id' as graph_id, array_agg(thread_id) as ids
    from graphs.threads
    where thread_id = any ($1::uuid[]) and status <> 'busy'
    group by 1`,
    [ids],
  )
  for (const row of rows.filter(row => row.graph_id !== null))
    await executorOf(server, row.graph_id).ask('prune', { thread_ids: row.ids })
  return rows.reduce((total, row) => total + row.ids.length, 0)
}
