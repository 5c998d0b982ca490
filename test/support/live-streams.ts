// Reads streams of the app, as a client would.
import type { StreamLimits } from '../../src/platform.ts'
import { type App, startApp, type Tenant } from './app.ts'

const LIMITS: StreamLimits = { seconds: 60, trips: 1_000_000, perKey: 1000, lookMs: [5, 10], keyCheckMs: 30 }

/** An app whose watchers look often, so that tests need not wait. */
export const startStreamingApp = (limits: Partial<StreamLimits> = {}): App =>
  startApp({ overrides: { liveStreams: { ...LIMITS, ...limits } } })

export type StreamItem = { id?: string; event?: string; data?: string; retry?: string; comment?: string }

function parseItem(block: string): StreamItem {
  const fields = block.split('\n').map(line => {
    const [, name, value] = /^(\w*): ?(.*)$/.exec(line)!
    return [name || 'comment', value]
  })
  return Object.fromEntries(fields)
}

export type OpenStream = Awaited<ReturnType<typeof openStream>>

/** Opens a stream with a key, or with headers of a session. */
export async function openStream(app: App, { key }: Partial<Pick<Tenant, 'key'>>, path: string, headers: object = {}) {
  const request = new Request(`http://slipway.test${path}`, {
    headers: { ...(key && { 'X-Api-Key': key }), ...headers },
  })
  const response = await app.fetch(request)
  // A pipe would read ahead.
  const reader = response.body!.getReader()
  const decoder = new TextDecoder()
  let rest = ''
  /** The text up to the separator. Undefined at the end of the stream. */
  async function readUpTo(separator: string): Promise<string | undefined> {
    for (;;) {
      const end = rest.indexOf(separator)
      if (end >= 0) {
        const text = rest.slice(0, end)
        rest = rest.slice(end + separator.length)
        return text
      }
      const { done, value } = await reader.read()
      if (done) return undefined
      rest += decoder.decode(value, { stream: true })
    }
  }
  let isFirst = true
  return {
    response,
    /** Skips the cursor that comes first if there is nothing to send yet. */
    async next(): Promise<StreamItem | undefined> {
      let block = await readUpTo('\n\n')
      if (isFirst && block && !/^(data|event|:)/m.test(block)) block = await readUpTo('\n\n')
      isFirst = false
      return block === undefined ? undefined : parseItem(block)
    },
    nextLine: () => readUpTo('\n'),
    /** Disconnects, like a client that goes away. */
    close: () => reader.cancel(),
  }
}
