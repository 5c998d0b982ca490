// The connection to ClickHouse over HTTP. Its client is loaded when it is first needed.
import type { ClickHouseClient } from '@clickhouse/client-web'
import { Failure, fail } from '../http/errors.ts'
import { compile, type Sql } from './sql.ts'

/** The limit is below that of a request. The engine ends a query earlier, with an error. */
const REQUEST_MS = 10_000
const QUERY_SECONDS = 4
const RETRY_AFTER_MS = 100

const SETTINGS = {
  max_execution_time: QUERY_SECONDS,
  output_format_json_quote_64bit_integers: 1,
  output_format_json_quote_decimals: 1,
} as const
/** TIMEOUT_EXCEEDED, TOO_SLOW, MEMORY_LIMIT_EXCEEDED and TOO_MANY_ROWS. */
const TOO_SLOW = ['159', '160', '241', '158']
/** TOO_MANY_SIMULTANEOUS_QUERIES, TOO_MANY_PARTS, TABLE_IS_READ_ONLY, and a server that cannot be reached behind it. */
const BUSY = ['202', '252', '242', '210', '209']

export type Row = (string | null)[]
export type ClickHouse = {
  /** Rows of columns. */
  query<T = Row>(sql: Sql): Promise<T[]>
  insert(table: string, rows: readonly object[]): Promise<void>
  /** A statement that changes data or tables. */
  execute(sql: Sql, seconds?: number): Promise<void>
}

/** The address has the login and, as its path, the database. */
export function connectClickHouse(url: string): ClickHouse {
  const opened = new Map<number, Promise<ClickHouseClient>>()
  const open = (request_timeout: number) => {
    const client =
      opened.get(request_timeout) ??
      import('@clickhouse/client-web').then(({ createClient }) =>
        createClient({
          url,
          request_timeout,
          use_multipart_params_auto: true,
          log: { level: LOG_OFF },
          // The flag of requests that outlive a page, whose bodies are limited to 64 KB. Connections are kept anyway.
          keep_alive: { enabled: false },
        }),
      )
    opened.set(request_timeout, client)
    return client
  }
  return {
    query: statement =>
      translated('read', async () => {
        const { query, query_params } = compile(statement)
        const client = await open(REQUEST_MS)
        const format = 'JSONCompactEachRow'
        const answer = await client.query({ query, query_params, format, clickhouse_settings: SETTINGS })
        const rows = (await answer.json()) as unknown[]
        // A query that fails after its first rows ends with the error in place of a row.
        if (!rows.every(Array.isArray)) throw fail('query_too_slow', { cause: new Error(JSON.stringify(rows.at(-1))) })
        return rows as never
      }),
    insert: (table, values) =>
      translated('write', async () => {
        await (await open(REQUEST_MS)).insert({ table, values, format: 'JSONEachRow' })
      }),
    execute: (statement, seconds = QUERY_SECONDS) =>
      translated('write', async () => {
        const { query, query_params } = compile(statement)
        const settings = { max_execution_time: seconds, lightweight_deletes_sync: '2' } as const
        const client = await open(seconds * 1000 + REQUEST_MS)
        await client.command({ query, query_params, clickhouse_settings: settings })
      }),
  }
}
/** `ClickHouseLogLevel.OFF`. Failures are logged with the request that they end. */
const LOG_OFF = 127

/** Reads can be repeated, and so can writes: a row that is there already is the same row. */
async function translated<T>(kind: 'read' | 'write', act: () => Promise<T>): Promise<T> {
  try {
    return await act().catch(async error => {
      if (!isUnavailable(error)) throw error
      await new Promise(resolve => setTimeout(resolve, RETRY_AFTER_MS))
      return act()
    })
  } catch (error) {
    const { code } = error as { code?: string }
    if (kind === 'read' && TOO_SLOW.includes(code!)) throw fail('query_too_slow', { cause: error })
    throw isUnavailable(error) || TOO_SLOW.includes(code!) ? unavailable(error) : error
  }
}

/** An error without a code of ClickHouse comes from the network, or from a proxy before the server. */
const isUnavailable = (error: unknown): boolean => {
  if (error instanceof Failure) return false
  const { code } = error as { code?: string }
  return !/^\d+$/.test(code ?? '') || BUSY.includes(code!)
}
const unavailable = (cause: unknown) => fail('database_unavailable', { headers: { 'Retry-After': '1' }, cause })
