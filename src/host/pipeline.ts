// Runs all statements of a gateway request in one round trip to Postgres.
import { hash } from 'node:crypto'
import type { Duplex } from 'node:stream'
import type pg from 'pg'

export type Statement = { query: string; params: unknown[] }
export type Result = {
  fields: { name: string; dataTypeID: number }[]
  rows: (string | null)[][]
  rowCount: number | null
  command: string
}

/** The methods of node-postgres' connection that `Pipeline` uses. */
type PgConnection = {
  stream: Duplex
  close(message: { type: 'S'; name: string }): void
  parse(message: { name: string; text: string }): void
  bind(message: { statement: string; values: (string | null)[] }): void
  describe(message: { type: 'P' }): void
  execute(): void
  sync(): void
}

/** The names of the statements that a connection has prepared. */
const preparedNames = new WeakMap<PgConnection, Set<string>>()

/** Runs the statements in order. Throws the error of the first that fails, and skips the rest. */
export function runPipeline(client: pg.ClientBase, statements: Statement[], prepares: boolean): Promise<Result[]> {
  return new Promise((resolve, reject) => {
    const done = (error: Error | null, results: Result[] = []) => (error ? reject(error) : resolve(results))
    client.query(new Pipeline(statements, prepares, done))
  })
}

/**
 * A node-postgres query that sends every statement before a single sync, so the server skips the rest after a failure.
 * The extended protocol allows one command for each statement, as Neon does. Values stay Postgres' text.
 */
class Pipeline {
  callback: (error: Error | null, results?: Result[]) => void
  readonly #statements: Statement[]
  readonly #names: string[]
  #prepared = new Set<string>()
  readonly #results: Result[] = []
  #fields: Result['fields'] = []
  #rows: Result['rows'] = []

  constructor(statements: Statement[], prepares: boolean, callback: Pipeline['callback']) {
    this.#statements = statements
    this.#names = statements.map(({ query }) => (prepares ? hash('sha1', query) : ''))
    this.callback = callback
  }

  submit(connection: pg.Connection) {
    const wire = connection as unknown as PgConnection
    this.#prepared = preparedNames.get(wire) ?? this.#prepared
    preparedNames.set(wire, this.#prepared)
    wire.stream.cork()
    for (const [i, { query, params }] of this.#statements.entries()) {
      const name = this.#names[i]!
      if (!this.#prepared.has(name)) {
        // A pipeline that failed may have prepared it.
        if (name) wire.close({ type: 'S', name })
        wire.parse({ name, text: query })
      }
      wire.bind({ statement: name, values: params.map(toText) })
      wire.describe({ type: 'P' })
      wire.execute()
    }
    wire.sync()
    wire.stream.uncork()
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
    this.#results.push({ fields: this.#fields, rows: this.#rows, rowCount, command })
    this.#fields = []
    this.#rows = []
  }

  handleEmptyQuery() {
    this.handleCommandComplete({ text: '' })
  }

  // A copy would swallow the sync and leave the connection out of step, so the caller drops the connection.
  handleCopyInResponse() {
    this.callback(new Error('COPY FROM STDIN is not supported'))
  }

  handleCopyData() {}

  handleError(error: Error) {
    this.callback(error)
  }

  // Not called after an error.
  handleReadyForQuery() {
    for (const name of this.#names) if (name) this.#prepared.add(name)
    this.callback(null, this.#results)
  }
}

function toText(value: unknown): string | null {
  if (value === null || value === undefined) return null
  return typeof value === 'string' ? value : JSON.stringify(value)
}
