// Sends statements to Neon over HTTP, with its driver.
import { type FullQueryResults, NeonDbError, neon } from '@neondatabase/serverless'
import { type SendStatements, StatementError } from '../../platform.ts'

/** Drizzle's columns decode the text of Postgres themselves, except for booleans (type 16). */
const TEXT_PARSERS = {
  getTypeParser: (type: number) => (value: string) => (type === 16 ? value === 't' : value),
} as never

export function sendToNeon(url: string): SendStatements {
  const client = neon(url, { fullResults: true, arrayMode: true })
  return async (statements, use, signal) => {
    const queries = statements.map(({ sql, params }) => client.query(sql, params, { types: TEXT_PARSERS }))
    const sent = Date.now()
    try {
      const results = await client.transaction(queries, { fetchOptions: { signal } })
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
