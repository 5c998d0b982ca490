// Runs all statements of a gateway request in one round trip to Postgres.
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
  parse(message: { text: string }): void
  bind(message: { values: (string | null)[] }): void
  describe(message: { type: 'P' }): void
  execute(): void
  sync(): void
}

/** Runs the statements in order. Throws the error of the first that fails, and skips the rest. */
export function runPipeline(client: pg.ClientBase, statements: Statement[]): Promise<Result[]> {
  return new Promise((resolve, reject) => {
    const done = (error: Error | null, results: Result[] = []) => (error ? reject(error) : resolve(results))
    client.query(new Pipeline(statements, done))
  })
}

/**
 * A node-postgres query that sends every statement before a single sync, so the server skips the rest after a failure.
 * The extended protocol allows one command for each statement, as Neon does. Values stay Postgres' text.
 */
class Pipeline {
  callback: (error: Error | null, results?: Result[]) => void
  readonly #statements: Statement[]
  readonly #results: Result[] = []
  #fields: Result['fields'] = []
  #rows: Result['rows'] = []

  constructor(statements: Statement[], callback: Pipeline['callback']) {
    this.#statements = statements
    this.callback = callback
  }

  submit(connection: pg.Connection) {
    const wire = connection as unknown as PgConnection
    wire.stream.cork()
    for (const { query, params } of this.#statements) {
      wire.parse({ text: query })
      wire.bind({ values: params.map(toText) })
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

  handleReadyForQuery() {
    this.callback(null, this.#results)
  }
}

function toText(value: unknown): string | null {
  if (value === null || value === undefined) return null
  return typeof value === 'string' ? value : JSON.stringify(value)
}
