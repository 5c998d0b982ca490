// Sends statements over HTTP with Neon's driver: to Neon, or to a gateway that speaks its protocol.
import { type FullQueryResults, NeonDbError, neon, neonConfig } from '@neondatabase/serverless'
import { type SendingUse, type SendStatements, StatementError } from '../../platform.ts'
import { toUseHeaders } from '../limits/connection-shares.ts'

type DriverInit = RequestInit & { endpoint?: string; use: SendingUse }
neonConfig.fetchFunction = (url: string, { endpoint, use, ...init }: DriverInit) =>
  // Neon has shares of its own. A gateway has ours.
  endpoint === undefined
    ? fetch(url, init)
    : fetch(endpoint, { ...init, headers: { ...(init.headers as Record<string, string>), ...toUseHeaders(use) } })

/** Drizzle's columns decode the text of Postgres themselves, except for booleans (type 16). */
const TEXT_PARSERS = {
  getTypeParser: (type: number) => (value: string) => (type === 16 ? value === 't' : value),
} as never

/** By default a trip goes to Neon's host, and otherwise to the endpoint of a gateway. */
export function sendToNeon(url: string, endpoint: string | undefined): SendStatements {
  const client = neon(url, { fullResults: true, arrayMode: true })
  return async (statements, use, signal) => {
    const queries = statements.map(({ sql, params }) => client.query(sql, params, { types: TEXT_PARSERS }))
    const sent = Date.now()
    try {
      const results = await client.transaction(queries, { fetchOptions: { endpoint, signal, use } })
      return (results as FullQueryResults<true>[]).map(({ rows }) => rows)
    } catch (error) {
      // The driver wraps the errors of Postgres and fetch, but not a connection that breaks within the response body.
      throw error instanceof NeonDbError && error.code ? new StatementError(error as Answered, error) : error
    } finally {
      // The answer does not say how much of this was a wait.
      use.onReleased?.(Date.now() - sent)
    }
  }
}
type Answered = NeonDbError & { code: string }
