// Sends statements to the gateway of src/host/gateway.ts in another process, which answers with the rows of each.
import { type SendStatements, StatementError } from '../../platform.ts'
import { toUseHeaders } from '../limits/connection-shares.ts'

/** The path that answers so. Others speak Neon's protocol. */
export const ROWS_PATH = '/rows'

export function sendToGateway(url: string, endpoint: string): SendStatements {
  return async (statements, use, signal) => {
    const sent = Date.now()
    try {
      const response = await fetch(endpoint, {
        method: 'POST',
        headers: { 'neon-connection-string': url, ...toUseHeaders(use) },
        body: JSON.stringify({ queries: statements.map(({ sql, params }) => ({ query: sql, params })) }),
        signal,
      })
      if (response.status === 400) throw new StatementError(await response.json())
      if (!response.ok) throw new Error(`The gateway answered ${response.status}.`)
      return await response.json()
    } finally {
      // The answer does not say how much of this was a wait.
      use.onReleased?.(Date.now() - sent)
    }
  }
}
