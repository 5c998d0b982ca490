// Checkpoints in Postgres, with the run that made them in their metadata.
import { WRITES_IDX_MAP } from '@langchain/langgraph-checkpoint'
import { PostgresSaver } from '@langchain/langgraph-checkpoint-postgres'
import pg from 'pg'

const SCHEMA = 'graphs_javascript'
const CONNECTIONS = 10
/** Members of the configuration that are the place of a checkpoint, not about it. */
const PLACES = ['checkpoint_ns', 'checkpoint_id', 'checkpoint_map', 'thread_id']

class RunSaver extends PostgresSaver {
  /** Writes under way, by thread. */
  #writing = new Map()
  #events
  /** Runs whose checkpoints could not be read or written. */
  #failed = new Set()

  constructor(pool, events) {
    super(pool, undefined, { schema: SCHEMA })
    this.#events = events
  }

  /**
   * Writes after the events of the run. A graph that was cancelled may go on in the background: what it writes then is
   * dropped, since the run may be rolled back by now.
   */
  #track(config, write, dropped) {
    const { thread_id: thread, run_id: run } = config.configurable ?? {}
    // The state of a thread is also set without a run.
    if (run === undefined) return write()
    const writeIfRunning = () => (this.#events.isRunning(run) ? write() : dropped)
    const promise = this.#events.isRunning(run)
      ? this.#events.flush(run).then(writeIfRunning)
      : Promise.resolve(dropped)
    const writing = this.#writing.get(thread) ?? new Set()
    this.#writing.set(thread, writing.add(promise))
    const forget = () => {
      writing.delete(promise)
      if (writing.size === 0) this.#writing.delete(thread)
    }
    promise.then(forget, () => {
      this.#failed.add(run)
      forget()
    })
    return promise
  }

  /** A cancelled graph does not wait for its checkpoints. A rollback must not come before them. */
  settle = thread => Promise.allSettled(this.#writing.get(thread) ?? [])

  async getTuple(config) {
    try {
      return await super.getTuple(config)
    } catch (error) {
      this.#failed.add(config.configurable?.run_id)
      throw error
    }
  }

  /** Tells whether checkpoints of a run failed, and forgets it. */
  takeFailure = run => this.#failed.delete(run)

  putWrites(config, writes, taskId) {
    return this.#track(config, () => this.#insertWrites(config, writes, taskId))
  }

  /** The rows of the official saver in one statement and not in a transaction of many. */
  async #insertWrites(config, writes, taskId) {
    if (writes.length === 0 || writes.length > MOST_ROWS) return super.putWrites(config, writes, taskId)
    const { thread_id, checkpoint_ns, checkpoint_id } = config.configurable
    const rows = await this._dumpWrites(thread_id, checkpoint_ns, checkpoint_id, taskId, writes)
    const isReplacing = writes.every(([channel]) => channel in WRITES_IDX_MAP)
    // A statement may not replace a row twice: the last one counts.
    const kept = isReplacing ? [...new Map(rows.map(row => [row[4], row])).values()] : rows
    await this.pool.query(insertWrites(kept.length, isReplacing), kept.flat())
  }

  async #insertCheckpoint(config, checkpoint, metadata, versions) {
    const { thread_id, checkpoint_ns = '', checkpoint_id } = config.configurable
    const [blobs, about] = await Promise.all([
      this._dumpBlobs(thread_id, checkpoint_ns, checkpoint.channel_values, versions),
      this._dumpMetadata(metadata),
    ])
    const own = [thread_id, checkpoint_ns, checkpoint.id, checkpoint_id, this._dumpCheckpoint(checkpoint), about]
    await this.pool.query(insertCheckpoint(blobs.length), [...own, ...blobs.flatMap(blob => blob.slice(2))])
    return { configurable: { thread_id, checkpoint_ns, checkpoint_id: checkpoint.id } }
  }

  put(config, checkpoint, metadata, versions) {
    const about = Object.entries(config.configurable ?? {}).filter(
      ([name]) => !name.startsWith('__') && !PLACES.includes(name),
    )
    const whole = { ...Object.fromEntries(about), ...config.metadata, ...metadata }
    const { thread_id, checkpoint_ns = '' } = config.configurable
    const place = { configurable: { thread_id, checkpoint_ns, checkpoint_id: checkpoint.id } }
    const isWide = Object.keys(versions).length > MOST_ROWS
    return this.#track(
      config,
      () =>
        isWide
          ? super.put(config, checkpoint, whole, versions)
          : this.#insertCheckpoint(config, checkpoint, whole, versions),
      place,
    )
  }

  /** Looks for a checkpoint that an earlier attempt of a run left, from which it goes on. */
  async hasCheckpointOf({ thread_id, run_id }) {
    const { rows } = await this.pool.query(
      `select 1
      from ${SCHEMA}.checkpoints
      where thread_id = $1 and checkpoint_ns = '' and metadata ->> 'run_id' = $2
      limit 1`,
      [thread_id, run_id],
    )
    return rows.length > 0
  }

  /** Deletes all checkpoints of threads but the latest of each namespace, with what only they refer to. */
  async keepLatest(threadIds) {
    const client = await this.pool.connect()
    try {
      await client.query('begin')
      for (const statement of PRUNE) await client.query(statement, [threadIds])
      await client.query('commit')
    } catch (error) {
      await client.query('rollback')
      throw error
    } finally {
      client.release()
    }
  }
}

/** Statements have a text for each number of rows. The official saver takes what is wider. */
const MOST_ROWS = 20
/** `(${first}, …), (…)`: places of parameters for rows of so many columns. */
const places = (count, width, first, before = '') =>
  Array.from({ length: count }, (_, row) => {
    const own = Array.from({ length: width }, (_, column) => `$${first + row * width + column}`)
    return `(${before}${own.join(', ')})`
  }).join(', ')

const insertWrites = (count, isReplacing) => `insert into ${SCHEMA}.checkpoint_writes
    (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob)
  values ${places(count, 8, 1)}
  on conflict (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
  do ${isReplacing ? 'update set channel = excluded.channel, type = excluded.type, blob = excluded.blob' : 'nothing'}`

function insertCheckpoint(count) {
  const own = `insert into ${SCHEMA}.checkpoints
    (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
  values ($1, $2, $3, $4, $5, $6)
  on conflict (thread_id, checkpoint_ns, checkpoint_id)
  do update set checkpoint = excluded.checkpoint, metadata = excluded.metadata`
  if (count === 0) return own
  return `with blobs as (
    insert into ${SCHEMA}.checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
    values ${places(count, 4, 7, '$1, $2, ')}
    on conflict (thread_id, checkpoint_ns, channel, version) do nothing
  )
  ${own}`
}

/** Each names the threads again: else the checkpoints of all threads are read. */
const PRUNE = [
  `delete from ${SCHEMA}.checkpoints c
  where thread_id = any ($1)
    and checkpoint_id < (
      select max(checkpoint_id)
      from ${SCHEMA}.checkpoints l
      where l.thread_id = c.thread_id and l.checkpoint_ns = c.checkpoint_ns
    )`,
  `delete from ${SCHEMA}.checkpoint_writes w
  where thread_id = any ($1)
    and not exists (
      select from ${SCHEMA}.checkpoints c
      where c.thread_id = any ($1) and c.thread_id = w.thread_id and c.checkpoint_ns = w.checkpoint_ns
        and c.checkpoint_id = w.checkpoint_id
    )`,
  `delete from ${SCHEMA}.checkpoint_blobs b
  where thread_id = any ($1)
    and not exists (
      select
      from ${SCHEMA}.checkpoints c, jsonb_each_text(c.checkpoint -> 'channel_versions') as used (channel, version)
      where c.thread_id = any ($1) and c.thread_id = b.thread_id and c.checkpoint_ns = b.checkpoint_ns
        and used.channel = b.channel and used.version = b.version
    )`,
]

/** Statements of the saver by name, so that Postgres parses and plans each once for a connection. */
class PreparingClient extends pg.Client {
  query(text, values, ...rest) {
    const name = typeof text === 'string' && Array.isArray(values) ? nameOf(text) : undefined
    return name ? super.query({ name, text, values }, ...rest) : super.query(text, values, ...rest)
  }
}

const names = new Map()
/** The limit of a list is a part of its text. */
const MOST_NAMES = 50
function nameOf(text) {
  if (!names.has(text) && names.size < MOST_NAMES) names.set(text, `saver_${names.size}`)
  return names.get(text)
}

/** The limits of the server: a statement that takes longer would hold a connection. */
const STATEMENT_MS = 30_000
const LIMITS = {
  statement_timeout: STATEMENT_MS,
  idle_in_transaction_session_timeout: STATEMENT_MS,
  query_timeout: STATEMENT_MS + 10_000,
  connectionTimeoutMillis: STATEMENT_MS,
}

export function openSaver(database, events) {
  const pool = new pg.Pool({
    Client: PreparingClient,
    connectionString: database,
    max: CONNECTIONS,
    application_name: 'graphs javascript',
    ...LIMITS,
  })
  pool.on('error', error => console.error(`database connection lost: ${error.message}`))
  // A connection that is lost between the statements of a transaction would end the process.
  pool.on('connect', client => client.on('error', () => {}))
  return new RunSaver(pool, events)
}

/** Without limits of time: a migration may make an index of a large table. */
export async function prepareTables(database) {
  const pool = new pg.Pool({ connectionString: database, max: 1 })
  try {
    await new PostgresSaver(pool, undefined, { schema: SCHEMA }).setup()
  } finally {
    await pool.end()
  }
}
