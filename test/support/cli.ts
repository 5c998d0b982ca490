// The command line against an app that this process serves.
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { getRequestListener } from '@hono/node-server'
import { type App, type AppOptions, startApp, type Tenant } from './app.ts'
import { type CliOptions, runProgramIn, startCliIn } from './cli-process.ts'
import { onFileEnd } from './file-state.ts'

const cleanups: (() => void)[] = []
onFileEnd(() => {
  for (const clean of cleanups.splice(0)) clean()
})

type Handle = (request: Request, pass: () => Promise<Response>) => Promise<Response>

/** Its `PUBLIC_URL` is its address, because upload links begin with it. */
export async function serveApp(
  handle: Handle = (_, pass) => pass(),
  overrides: AppOptions['overrides'] = {},
  settings: AppOptions['settings'] = {},
): Promise<{ url: string; app: App }> {
  let app: App | undefined
  const listener = getRequestListener(request => handle(request, async () => app!.fetch(request)))
  const server = createServer(listener)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  cleanups.push(() => {
    server.close()
    server.closeAllConnections()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  app = startApp({ settings: { ...settings, PUBLIC_URL: url }, overrides })
  return { url, app }
}

export function makeFolder(files: Record<string, string> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), 'slipway-cli-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true, maxRetries: 9 }))
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), content)
  }
  return folder
}

export { type CliResult, MAIN, startCliOnTerminal } from './cli-process.ts'

export const runProgram = (command: string[], options: Partial<CliOptions> = {}) =>
  runProgramIn({ ...options, cwd: options.cwd ?? makeFolder() }, command)

/** Runs in a new folder, if none is given. */
export const startCli = (args: string[], options: Partial<CliOptions> = {}) =>
  startCliIn({ ...options, cwd: options.cwd ?? makeFolder() }, args)

export const keyEnv = (url: string, { key }: Pick<Tenant, 'key'>) => ({ SLIPWAY_URL: url, SLIPWAY_API_KEY: key })
