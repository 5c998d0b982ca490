// `slipway mcp`: an MCP server for clients that start programs. It forwards to `/mcp` with the login of this machine.
import { createRenewingFetch } from '../ci-login.ts'
import type { Declaration } from '../declaration.ts'
import { runProxy } from '../mcp-proxy.ts'
import { type Session, validLogin } from '../session.ts'
import { type Login, readLogin } from '../settings.ts'
import { printable } from '../terminal-text.ts'
import { USER_AGENT } from '../version.ts'

export const declaration: Declaration = { summary: 'serve MCP on standard input and output, for assistants' }

export async function run({ out, signal, folder }: Session): Promise<void> {
  const note = (text: string) => void process.stderr.write(`slipway mcp: ${printable(text)}\n`)
  if (process.stdin.isTTY) note('It reads MCP messages from standard input. Have an MCP client start it.')
  let renewing: { key: string; fetch: typeof fetch } | undefined
  const fetchFor = ({ ci, ...login }: Login): typeof fetch => {
    if (!ci) return fetch
    // One for all requests with this key, so that it is renewed once.
    if (renewing?.key !== login.key)
      renewing = { key: login.key, fetch: createRenewingFetch({ ...login, ci }, out, signal) }
    return renewing.fetch
  }
  await runProxy({
    input: process.stdin,
    note,
    userAgent: USER_AGENT,
    signal,
    write: message => out.raw(JSON.stringify(message)),
    login: () => validLogin(readLogin(folder)),
    fetchFor,
  })
}
