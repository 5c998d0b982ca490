// `slipway mcp`: an MCP server for clients that start programs. It speaks for `/mcp` with the login of this machine.
import { runProxy } from '../mcp-proxy.ts'
import { type Session, validLogin } from '../session.ts'
import { readLogin } from '../settings.ts'
import { printable } from '../terminal-text.ts'
import { USER_AGENT } from '../version.ts'

export async function serveMcp({ out, signal, folder }: Session): Promise<void> {
  const note = (text: string) => void process.stderr.write(`${printable(text)}\n`)
  const login = () => validLogin(readLogin(folder))
  try {
    const { url, from } = login()
    note(`slipway mcp: ${url}/mcp, signed in by ${from}`)
  } catch (error) {
    // Clients show the errors of requests, and only that a program has ended.
    note(`slipway mcp: ${(error as Error).message}`)
  }
  if (process.stdin.isTTY) note('This command reads MCP messages from standard input. Have an MCP client start it.')
  await runProxy({
    input: process.stdin,
    write: message => out.raw(JSON.stringify(message)),
    note,
    login,
    userAgent: USER_AGENT,
    signal,
  })
}
