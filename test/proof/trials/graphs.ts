// Graph applications by the SDKs of the reference: each call, copies killed in streams, latency. It needs Python 3.11.
import { execFile, execFileSync, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { homedir, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { startPostgres } from '../../../src/host/embedded-postgres.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { connect } from '../../support/postgres.ts'
import { CACHE, check, hasProgram, note, runTrial, skipped } from '../support/trial.ts'

const ROOT = join(import.meta.dirname, '../../..')
const FILES = join(import.meta.dirname, 'graphs')
const MAIN = join(ROOT, 'src/graphs/main.ts')
const JS_SDK = '@langchain/langgraph-sdk@1.15.0'
const PYTHON_PACKAGES = ['langgraph==1.2.24', 'langgraph-sdk==0.4.14']
const [, givenKills] = process.argv.find(argument => argument.startsWith('--kills='))?.split('=') ?? []
const KILLS = Number(givenKills ?? 20)
/** The target is for a quiet machine: above a load of one for each core, the figure is only noted. */
const LATENCY_MS = 50

type Line = { name: string; ok: boolean; detail?: string }
const run = promisify(execFile)
const work = mkdtempSync(join(tmpdir(), 'slipway-graphs-'))
const installed = join(CACHE, 'graphs')

/** Folders with packages are kept: installing takes a minute. */
async function installJavaScript(): Promise<void> {
  mkdirSync(installed, { recursive: true })
  cpSync(join(ROOT, 'src/graphs/runtimes'), join(installed, 'runtimes'), { recursive: true })
  await run('npm', ['ci', '--no-audit', '--no-fund', '--ignore-scripts'], {
    cwd: join(installed, 'runtimes/javascript'),
  })
  cpSync(join(FILES, 'javascript'), join(installed, 'javascript'), { recursive: true })
  await run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: join(installed, 'javascript') })
  writeFileSync(join(installed, 'javascript/.env'), 'GREETING="hello there"\n')
  const sdk = join(installed, 'sdk')
  mkdirSync(sdk, { recursive: true })
  writeFileSync(join(sdk, 'package.json'), '{"private":true,"type":"module"}')
  for (const name of ['calls.mjs', 'kill.mjs', 'latency.mjs']) cpSync(join(FILES, name), join(sdk, name))
  await run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', JS_SDK], { cwd: sdk })
}

/** An interpreter of 3.11 or newer that can make virtual environments. */
function findPython(): string | undefined {
  const versions = join(homedir(), '.pyenv/versions')
  const pyenv = existsSync(versions) ? readdirSync(versions).map(name => join(versions, name, 'bin/python3')) : []
  const named = ['python3.13', 'python3.12', 'python3.11', 'python3'].filter(hasProgram)
  return [...named, ...pyenv].find(program => {
    try {
      execFileSync(program, ['-c', 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'], {
        stdio: 'ignore',
      })
      return true
    } catch {
      return false
    }
  })
}

async function installPython(python: string): Promise<string> {
  const folder = join(installed, 'python')
  cpSync(join(FILES, 'python'), folder, { recursive: true })
  const venv = join(folder, '.venv')
  if (!existsSync(venv)) await run(python, ['-m', 'venv', venv])
  const requirements = join(ROOT, 'src/graphs/runtimes/python/requirements.txt')
  await run(join(venv, 'bin/pip'), ['install', '--quiet', '-r', requirements, ...PYTHON_PACKAGES])
  return join(venv, 'bin/python')
}

/** Graphs of both languages in one file. */
function createMixed(): string {
  const folder = join(installed, 'mixed')
  mkdirSync(folder, { recursive: true })
  cpSync(join(FILES, 'python/graphs.py'), join(folder, 'graphs.py'))
  cpSync(join(FILES, 'javascript/graphs.ts'), join(folder, 'graphs.ts'))
  for (const [name, from] of [
    ['.venv', 'python/.venv'],
    ['node_modules', 'javascript/node_modules'],
  ] as const) {
    rmSync(join(folder, name), { force: true })
    symlinkSync(join(installed, from), join(folder, name))
  }
  const graphs = { javascript: './graphs.ts:agent', python: './graphs.py:agent' }
  writeFileSync(join(folder, 'langgraph.json'), JSON.stringify({ dependencies: ['.'], graphs }))
  return folder
}

async function startServer(folder: string, databaseUrl: string) {
  const port = await findFreePort()
  const env = {
    ...process.env,
    PORT: `${port}`,
    DATABASE_URI: databaseUrl,
    GRAPHS_RUNTIME: join(installed, 'runtimes'),
  }
  const begin = performance.now()
  const child = spawn(process.execPath, [MAIN, join(folder, 'langgraph.json')], { cwd: folder, env, stdio: 'ignore' })
  const ended = new Promise(resolve => child.once('exit', resolve))
  const url = `http://127.0.0.1:${port}`
  const isUp = () =>
    fetch(`${url}/ok`).then(
      response => response.ok,
      () => false,
    )
  while (!(await isUp())) {
    if (child.exitCode !== null) throw new Error(`The server of ${folder} ended with status ${child.exitCode}.`)
    await delay(50)
  }
  note(`up after ${Math.round(performance.now() - begin)} ms`)
  async function stop(): Promise<void> {
    child.kill('SIGTERM')
    await ended
  }
  return { url, env, stop }
}

async function readLines(program: string, args: string[], env: NodeJS.ProcessEnv, cwd: string): Promise<Line[]> {
  const { stdout } = await run(program, args, { env, cwd, maxBuffer: 2 ** 26 })
  return stdout
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
}

function report(of: string, lines: Line[]): void {
  for (const { name, ok, detail } of lines) check(`${of}: ${name}`, ok, detail)
  note(`${of}: ${lines.filter(line => line.ok).length} of ${lines.length} calls`)
}

const sdk = join(installed, 'sdk')
const node = (name: string, ...args: string[]) => readLines(process.execPath, [name, ...args], process.env, sdk)

async function tryApplication(language: string, databaseUrl: string, python: string | undefined): Promise<void> {
  const folder = join(installed, language)
  const server = await startServer(folder, databaseUrl)
  try {
    report(`${language} graphs, SDK of JavaScript`, await node('calls.mjs', server.url))
    const calls = [join(FILES, 'calls.py'), server.url]
    if (python) report(`${language} graphs, SDK of Python`, await readLines(python, calls, process.env, folder))
    const load = loadavg()[0]!
    const [latency] = (await node('latency.mjs', server.url)) as unknown as Record<
      string,
      { p50: number; p95: number }
    >[]
    note(`${language} graphs, runs.wait in ms at a load of ${load.toFixed(1)}: ${JSON.stringify(latency)}`)
    if (load < 2) check(`${language} graphs: runs.wait within ${LATENCY_MS} ms`, latency!.thread!.p50 <= LATENCY_MS)
  } finally {
    await server.stop()
  }
  const env = { ...server.env, PORT: '' }
  const args = ['kill.mjs', `${KILLS}`, process.execPath, MAIN, join(folder, 'langgraph.json')]
  const [killed] = await readLines(process.execPath, args, env, sdk)
  check(`${language} graphs: ${KILLS} copies killed, nothing lost or doubled`, killed!.ok, killed!.detail)
  note(JSON.stringify(killed))
}

async function tryMixed(databaseUrl: string): Promise<void> {
  const server = await startServer(createMixed(), databaseUrl)
  try {
    for (const assistant_id of ['javascript', 'python']) {
      const body = JSON.stringify({ assistant_id, input: { messages: [{ role: 'user', content: 'hi' }] } })
      const headers = { 'Content-Type': 'application/json' }
      const text = await (await fetch(`${server.url}/runs/wait`, { method: 'POST', headers, body })).text()
      check(`a mixed file: the ${assistant_id} graph answers`, text.includes('You said: hi'), text.slice(0, 200))
    }
  } finally {
    await server.stop()
  }
}

await runTrial(async () => {
  await using cleanup = new AsyncDisposableStack()
  cleanup.defer(() => rmSync(work, { recursive: true, force: true }))
  await installJavaScript()
  const program = findPython()
  if (!program) skipped('Python graphs: no Python 3.11 or newer with venv was found')
  const python = program && (await installPython(program))
  const postgres = await startPostgres({ dataDir: join(work, 'postgres'), durable: false })
  cleanup.defer(() => postgres.stop())
  const client = await connect(postgres.url)
  cleanup.defer(() => client.end())
  for (const name of ['javascript', 'python', 'mixed']) {
    if (name !== 'javascript' && !python) continue
    await client.query(`create database graphs_${name}`)
    const url = Object.assign(new URL(postgres.url), { pathname: `graphs_${name}` }).href
    await (name === 'mixed' ? tryMixed(url) : tryApplication(name, url, python))
  }
})
