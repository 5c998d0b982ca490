// Runs statements in one round trip to Postgres, and in the one transaction that its single Sync ends.
import type { Duplex } from 'node:stream'
import pg from 'pg'
import { type Field, PreparedStatements, type Use } from './prepared-statements.ts'

export type Statement = { query: string; params: unknown[] }
export type Result = {
  fields: Field[]
  rows: (string | null)[][]
  rowCount: number | null
  command: string
}

/** The methods of node-postgres' connection that `Pipeline` uses. */
type PgConnection = {
  stream: Duplex
  close(message: { type: 'S'; name: string }): void
  parse(message: { name: string; text: string }): void
  bind(message: { statement: string; values: (string | Buffer | null)[] }): void
  describe(message: { type: 'P' }): void
  execute(): void
  sync(): void
}

/** The connection has lost a statement: a pooler has changed it for another between two transactions. */
const STATEMENT_LOST = /^(26000|42P05)$/
/**
 * A statement that was parsed before a change of the schema: its result has other types now, or its parameters no
 * longer fit. Not 42501, which is a refusal.
 */
const STATEMENT_STALE = /^(0A000|42(?!501))/

const preparedOn = new WeakMap<pg.ClientBase, PreparedStatements>()

/** `onLost` is called when a connection has lost a prepared statement. It is not to be given `prepares` again. */
export type Preparing = { onLost(): void } | undefined

/** Runs the statements in order. Throws the error of the first that fails: none of them is then done. */
export async function runPipeline(
  client: pg.ClientBase,
  statements: Statement[],
  preparing?: Preparing,
): Promise<Result[]> {
  if (!preparing) return send(client, new Pipeline(statements))
  const prepared = preparedOn.get(client) ?? new PreparedStatements()
  preparedOn.set(client, prepared)
  const pipeline = new Pipeline(statements, prepared)
  try {
    return await send(client, pipeline)
  } catch (error) {
    const failure = pipeline.failureOfPrepared(error)
    if (!failure) throw error
    prepared.forgetAll()
    if (failure === 'lost') preparing.onLost()
    if (client.getTransactionStatus() !== 'I') await client.query('ROLLBACK')
    return send(client, new Pipeline(statements))
  }
}

function send(client: pg.ClientBase, pipeline: Pipeline): Promise<Result[]> {
  client.query(pipeline)
  return pipeline.answer
}

/**
 * A node-postgres query that sends every statement before a single sync, so the server skips the rest after a failure.
 * The extended protocol allows one command for each statement, as Neon does. Values stay Postgres' text.
 *
 * It has no `callback`: V8 makes a function that is assigned to a property an old object at once, and whatever an old
 * object reaches outlives the collections of the young. So did the rows of every request.
 */
class Pipeline {
  readonly #answer = Promise.withResolvers<Result[]>()
  readonly results: Result[] = []
  readonly #statements: Statement[]
  readonly #prepared: PreparedStatements | undefined
  #uses: Use[] = []
  #fields: Result['fields'] = []
  #rows: Result['rows'] = []

  constructor(statements: Statement[], prepared?: PreparedStatements) {
    this.#statements = statements
    this.#prepared = prepared
  }

  get answer(): Promise<Result[]> {
    return this.#answer.promise
  }

  submit(connection: pg.Connection) {
    const wire = connection as unknown as PgConnection
    const uses = this.#prepared?.use(this.#statements.map(({ query }) => query)) ?? []
    this.#uses = uses
    wire.stream.cork()
    for (const name of this.#prepared?.takeNamesToClose() ?? []) wire.close({ type: 'S', name })
    for (const [i, { query, params }] of this.#statements.entries()) {
      const { name, isParsed, fields } = uses[i] ?? { name: '', isParsed: true }
      if (isParsed) wire.parse({ name, text: query })
      wire.bind({ statement: name, values: params.map(toText) })
      if (!fields) wire.describe({ type: 'P' })
      wire.execute()
    }
    wire.sync()
    wire.stream.uncork()
  }

  /** Recognizes errors after which a prepared statement must be parsed again. */
  failureOfPrepared(error: unknown): 'lost' | 'stale' | undefined {
    const code = (error instanceof pg.DatabaseError && error.code) || ''
    // A client's own COMMIT within the batch: what it committed must not happen twice.
    if (this.results.some(({ command }) => command === 'COMMIT')) return undefined
    if (STATEMENT_LOST.test(code)) return 'lost'
    const failed = this.#uses[this.results.length]
    return failed && !failed.isParsed && STATEMENT_STALE.test(code) ? 'stale' : undefined
  }

  handleRowDescription(message: { fields: Result['fields'] }) {
    this.#fields = message.fields.map(({ name, dataTypeID }) => ({ name, dataTypeID }))
  }

  handleDataRow(message: { fields: Result['rows'][number] }) {
    this.#rows.push(message.fields)
  }

  handleCommandComplete(message: { text: string }) {
    const [command = '', ...counts] = message.text.split(' ')
    const count = counts.at(-1)
    const rowCount = count !== undefined && /^\d+$/.test(count) ? Number(count) : null
    const use = this.#uses[this.results.length]
    const fields = use?.fields ?? this.#fields
    if (use) use.fields = fields
    this.results.push({ fields, rows: this.#rows, rowCount, command })
    this.#fields = []
    this.#rows = []
  }

  handleEmptyQuery() {
    this.handleCommandComplete({ text: '' })
  }

  // A copy would swallow the sync and leave the connection out of step, so the caller drops the connection.
  handleCopyInResponse() {
    this.#answer.reject(new Error('COPY FROM STDIN is not supported'))
  }

  handleCopyData() {}

  handleError(error: Error) {
    this.#prepared?.record(this.#uses, this.results.length)
    this.#answer.reject(error)
  }

  // Not called after an error.
  handleReadyForQuery() {
    this.#prepared?.record(this.#uses, this.results.length)
    this.#answer.resolve(this.results)
  }
}

function toText(value: unknown): string | Buffer | null {
  if (value === null || value === undefined) return null
  return typeof value === 'string' || Buffer.isBuffer(value) ? value : JSON.stringify(value)
}
