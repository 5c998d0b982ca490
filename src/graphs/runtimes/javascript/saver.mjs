// Checkpoints in Postgres, with the run that made them in their metadata.
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
    return this.#track(config, () => super.putWrites(config, writes, taskId))
  }

  put(config, checkpoint, metadata, versions) {
    const about = Object.entries(config.configurable ?? {}).filter(
      ([name]) => !name.startsWith('__') && !PLACES.includes(name),
    )
    const whole = { ...Object.fromEntries(about), ...config.metadata, ...metadata }
    const { thread_id, checkpoint_ns = '' } = config.configurable
    const place = { configurable: { thread_id, checkpoint_ns, checkpoint_id: checkpoint.id } }
    return this.#track(config, () => super.put(config, checkpoint, whole, versions), place)
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
      where c.thread_id = w.thread_id and c.checkpoint_ns = w.checkpoint_ns and c.checkpoint_id = w.checkpoint_id
    )`,
  `delete from ${SCHEMA}.checkpoint_blobs b
  where thread_id = any ($1)
    and not exists (
      select
      from ${SCHEMA}.checkpoints c, jsonb_each_text(c.checkpoint -> 'channel_versions') as used (channel, version)
      where c.thread_id = b.thread_id and c.checkpoint_ns = b.checkpoint_ns
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

export function openSaver(database, events) {
  const pool = new pg.Pool({
    Client: PreparingClient,
    connectionString: database,
    max: CONNECTIONS,
    application_name: 'graphs javascript',
  })
  pool.on('error', error => console.error(`database connection lost: ${error.message}`))
  return new RunSaver(pool, events)
}
