// Terminals and ports through `npm run dev` (workerd and an agent): near, 200 ms away, several at once, cut by a key.
import { spawn as spawnChild } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { spawn } from '@lydell/node-pty'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { addLatency } from '../support/latency-proxy.ts'
import { check, note, runTrial } from '../support/trial.ts'

const ROOT = join(import.meta.dirname, '../../..')
const ROUND_TRIP_MS = 200
const AT_ONCE = 10
const KEYS = 30

type Installation = { url: string; api_key: string; pid: number }
type Target = Pick<Installation, 'url' | 'api_key'>

const environmentOf = ({ url, api_key }: Target) => ({ ...process.env, SLIPWAY_URL: url, SLIPWAY_API_KEY: api_key })

async function startDev(cleanup: AsyncDisposableStack, folder: string): Promise<Installation> {
  const home = join(folder, 'home')
  const port = String(await findFreePort())
  const dev = spawnChild(process.execPath, ['-r', './src/host/require-node.cjs', 'src/host/dev.ts', '--port', port], {
    cwd: ROOT,
    env: { ...process.env, SLIPWAY_HOME: home },
    stdio: 'ignore',
  })
  cleanup.defer(async () => {
    if (dev.exitCode !== null || !dev.kill('SIGTERM')) return
    await once(dev, 'exit')
  })
  const file = join(home, 'dev.json')
  for (let i = 0; i < 600 && !existsSync(file); i++) await delay(200)
  return JSON.parse(readFileSync(file, 'utf8'))
}

async function runCli(target: Target, args: string[], cwd = ROOT) {
  const child = spawnChild(process.execPath, [join(ROOT, 'src/cli/main.ts'), ...args], {
    cwd,
    env: environmentOf(target),
  })
  let out = ''
  child.stdout.on('data', data => {
    out += data
  })
  child.stderr.resume()
  child.stdin.end()
  const [code] = (await once(child, 'close')) as [number]
  return { code, out }
}

/** A person at a terminal: types, and waits for what is shown. */
function openTerminal(target: Target, args: string[]) {
  const terminal = spawn(process.execPath, [join(ROOT, 'src/cli/main.ts'), 'exec', ...args], {
    cols: 91,
    rows: 31,
    cwd: ROOT,
    env: environmentOf(target) as Record<string, string>,
  })
  let shown = ''
  terminal.onData(data => {
    shown += data
  })
  const exit = new Promise<number>(resolve => terminal.onExit(({ exitCode }) => resolve(exitCode)))
  return {
    exit,
    type: (text: string) => terminal.write(text),
    resize: (columns: number, rows: number) => terminal.resize(columns, rows),
    length: () => shown.length,
    async until(isShown: (text: string) => boolean): Promise<number> {
      const started = performance.now()
      while (!isShown(shown)) {
        if (performance.now() - started > 30_000) throw new Error(`Not shown within 30 s: ${shown.slice(-300)}`)
        await delay(1)
      }
      return performance.now() - started
    },
  }
}

async function tryTerminal(name: string, target: Target): Promise<void> {
  const terminal = openTerminal(target, ['shelled', '--', 'sh'])
  const opened = await terminal.until(text => /[$#] $/.test(text))
  const times: number[] = []
  for (let i = 0; i < KEYS; i++) {
    const length = terminal.length()
    terminal.type('x')
    times.push(await terminal.until(text => text.length > length))
  }
  times.sort((a, b) => a - b)
  note(`${name}: open after ${Math.round(opened)} ms; a key is echoed in ${Math.round(times[KEYS / 2]!)} ms (median)`)
  terminal.type('\x15stty size\r')
  await terminal.until(text => text.includes('31 91'))
  terminal.resize(77, 17)
  await delay(2 * ROUND_TRIP_MS)
  terminal.type('stty size\r')
  await terminal.until(text => text.includes('17 77'))
  terminal.type('echo sle""eps; sleep 60\r')
  await terminal.until(text => text.includes('sleeps'))
  terminal.type('\x03')
  terminal.type('echo "af""ter $?"\r')
  await terminal.until(text => text.includes('after 130'))
  terminal.type('exit 9\r')
  check(`${name}: sizes, Ctrl-C and the exit code pass`, (await terminal.exit) === 9)
}

let key: { id: string; key: string } | undefined
async function keyOf(near: Installation): Promise<Target> {
  const response = await fetch(`${near.url}/workspaces/current/api-keys`, {
    method: 'POST',
    headers: { 'X-Api-Key': near.api_key, 'Content-Type': 'application/json' },
    body: '{"description":"of a terminal"}',
  })
  key = (await response.json()) as { id: string; key: string }
  return { url: near.url, api_key: key.key }
}
const deleteKey = ({ url, api_key }: Installation) =>
  fetch(`${url}/workspaces/current/api-keys/${key!.id}`, { method: 'DELETE', headers: { 'X-Api-Key': api_key } })

await runTrial(async () => {
  await using cleanup = new AsyncDisposableStack()
  const folder = mkdtempSync(join(tmpdir(), 'slipway-terminals-'))
  chmodSync(folder, 0o755)
  cleanup.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 9 }))
  const near = await startDev(cleanup, folder)
  const application = join(folder, 'shelled')
  mkdirSync(application)
  writeFileSync(join(application, 'package.json'), '{"name":"shelled","scripts":{"start":"node server.js"}}')
  const server = `require('node:http').createServer((_, res) => res.end('hello')).listen(process.env.PORT)`
  writeFileSync(join(application, 'server.js'), server)
  await runCli(near, ['deploy', '--yes', '--create', '--name', 'shelled'], application)

  await tryTerminal('near', near)
  const far = { ...near, url: await addLatency(cleanup, near.url, ROUND_TRIP_MS) }
  await tryTerminal(`${ROUND_TRIP_MS} ms away`, far)

  const bytes = 20_000_000
  const started = performance.now()
  const { out } = await runCli(far, ['exec', 'shelled', '--', 'sh', '-c', `head -c ${bytes} /dev/zero | tr '\\0' x`])
  const seconds = (performance.now() - started) / 1000
  note(`${bytes / 1e6} MB of output, ${ROUND_TRIP_MS} ms away: ${(bytes / 1e6 / seconds).toFixed(2)} MB/s`)
  check('a long output arrives whole', out.length === bytes, `${out.length} bytes`)

  const at = performance.now()
  const codes = await Promise.all(
    Array.from({ length: AT_ONCE }, (_, i) =>
      runCli(near, ['exec', 'shelled', '--', 'sh', '-c', `sleep 5; exit ${i}`]).then(({ code }) => code),
    ),
  )
  note(`${codes.length} commands at once: ${Math.round(performance.now() - at)} ms`)
  check(
    'commands at once have their own exit codes',
    codes.every((code, i) => code === i),
  )

  const http = ['connect', 'shelled', 'web', '--', 'sh', '-c', 'curl -s http://$HOST:$PORT/']
  check('a port of a copy is reached', (await runCli(far, http)).out === 'hello')

  const revoked = openTerminal(await keyOf(near), ['shelled', '--', 'sh'])
  await revoked.until(text => /[$#] $/.test(text))
  await deleteKey(near)
  const cutAt = performance.now()
  check('a terminal ends once its key is revoked', (await revoked.exit) === 1)
  note(`cut ${Math.round(performance.now() - cutAt)} ms after the key was revoked`)
})
