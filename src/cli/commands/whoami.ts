// `slipway whoami`: whose key is used, and where it acts.
import { describeKey, summarizeKey } from '../account.ts'
import type { Declaration } from '../declaration.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = { summary: 'show whose key this is, where it acts, and what it may do' }

export async function run({ client, out, login, signal }: Session): Promise<void> {
  const me = await client.call('GET /v2/me', { signal })
  out.emit({ url: login.url, from: login.from, ...describeKey(me, login) }, () =>
    [...summarizeKey(me, login), out.paint('dim', `${'From'.padEnd(13)}${login.from}`)].join('\n'),
  )
}
