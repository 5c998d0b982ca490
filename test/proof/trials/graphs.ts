// Graph applications by the SDKs of the reference: each call, copies killed in streams, latency, rolling updates. It
// needs Python 3.11. `--only=javascript|python|mixed|own|rollout` runs one part, and `--only=load` puts load on one.
import { execFile, execFileSync, spawn } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { homedir, loadavg, tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type Postgres, startPostgres } from '../../../src/host/embedded-postgres.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { connect } from '../../support/postgres.ts'
import { CACHE, check, hasProgram, note, runTrial, skipped } from '../support/trial.ts'
import { tryLoad } from './graphs/load.ts'

const ROOT = join(import.meta.dirname, '../../..')
const FILES = join(import.meta.dirname, 'graphs')
const MAIN = join(ROOT, 'src/graphs/main.ts')
const JS_SDK = '@langchain/langgraph-sdk@1.15.0'
const PYTHON_PACKAGES = ['langgraph==1.2.24', 'langgraph-sdk==0.4.14', 'fastapi>=0.115,<1']
const [, givenKills] = process.argv.find(argument => argument.startsWith('--kills='))?.split('=') ?? []
const KILLS = Number(givenKills ?? 20)
/** The part that runs, in place of all but `load`. */
const [, ONLY] = process.argv.find(argument => argument.startsWith('--only='))?.split('=') ?? []
const isWanted = (part: string) => (ONLY === undefined ? part !== 'load' : ONLY === part)
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
  for (const name of ['calls.mjs', 'kill.mjs', 'latency.mjs', 'load.mjs', 'own.mjs'])
    cpSync(join(FILES, name), join(sdk, name))
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

/** A folder with the graphs and the packages of both languages. */
function createFolder(name: string, file: object, edit = (text: string) => text): string {
  const folder = join(installed, name)
  mkdirSync(folder, { recursive: true })
  for (const path of ['python/graphs.py', 'javascript/graphs.ts', 'own/auth.mjs', 'own/own.py'])
    writeFileSync(join(folder, basename(path)), edit(readFileSync(join(FILES, path), 'utf8')))
  for (const [name, from] of [
    ['.venv', 'python/.venv'],
    ['node_modules', 'javascript/node_modules'],
  ] as const) {
    rmSync(join(folder, name), { force: true })
    symlinkSync(join(installed, from), join(folder, name))
  }
  writeFileSync(join(folder, 'langgraph.json'), JSON.stringify({ dependencies: ['.'], ...file }))
  return folder
}

/** Graphs of both languages in one file. */
const createMixed = () =>
  createFolder('mixed', { graphs: { javascript: './graphs.ts:agent', python: './graphs.py:agent' } })

/** An authentication, routes and embeddings of the application's own, in the language of its graphs. */
function createOwn(language: string): string {
  const [graphs, own] = language === 'python' ? ['./graphs.py', './own.py'] : ['./graphs.ts', './auth.mjs']
  return createFolder(`own-${language}`, {
    graphs: { agent: `${graphs}:agent`, finder: `${graphs}:finder` },
    auth: { path: `${own}:auth` },
    store: { index: { dims: 3, embed: `${own}:embed`, fields: ['text'] } },
    http: { app: `${own}:app` },
  })
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
  return { url, env, stop, pid: child.pid! }
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
  const args = ['kill.mjs', `kill:${KILLS}`, process.execPath, MAIN, join(folder, 'langgraph.json')]
  const [killed] = await readLines(process.execPath, args, env, sdk)
  check(`${language} graphs: ${KILLS} copies killed, nothing lost or doubled`, killed!.ok, killed!.detail)
  note(JSON.stringify(killed))
}

/** With authentication, routes and an index of its own. */
async function tryOwn(language: string, databaseUrl: string): Promise<void> {
  const server = await startServer(createOwn(language), databaseUrl)
  try {
    report(`${language} graphs with an authentication of their own`, await node('own.mjs', server.url))
  } finally {
    await server.stop()
  }
}

/**
 * A rolling update in the middle of runs, and its rollback, with a restart of the database. The other version has one
 * node more, which runs that began in the first one come to.
 */
async function tryRollout(language: string, postgres: Postgres, databaseUrl: string): Promise<Postgres> {
  const graphs = { agent: 'agent', slow: 'slow', trivial: 'trivial' }
  const file = language === 'python' ? './graphs.py' : './graphs.ts'
  const listed = Object.fromEntries(Object.entries(graphs).map(([id, name]) => [id, `${file}:${name}`]))
  const first = createFolder(`first-${language}`, { graphs: listed })
  const second = createFolder(`second-${language}`, { graphs: listed }, addNode)
  const at = (folder: string) => join(folder, 'langgraph.json')
  const env = { ...process.env, PORT: '', DATABASE_URI: databaseUrl, GRAPHS_RUNTIME: join(installed, 'runtimes') }
  const actions = `wait:5,roll:${at(second)},wait:3,roll:${at(first)},wait:20`
  const ending = readLines(process.execPath, ['kill.mjs', actions, process.execPath, MAIN, at(first)], env, sdk)
  // While the first version serves again.
  await Promise.race([delay(55_000), ending.catch(() => {})])
  const { port } = postgres
  await postgres.stop()
  const restarted = await startPostgres({ dataDir: join(work, 'postgres'), port, durable: false })
  const [result] = await ending
  check(`${language} graphs: a rolling update, a rollback and a database restart in runs`, result!.ok, result!.detail)
  note(JSON.stringify(result))
  return restarted
}

const addNode = (text: string) =>
  text
    .replace(".addEdge('count', '__end__')", ".addNode('more', async () => ({})).addEdge('count', 'more')")
    .replace('.add_edge("count", "__end__")', '.add_node("more", lambda state: {}).add_edge("count", "more")')

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
  let postgres = await startPostgres({ dataDir: join(work, 'postgres'), durable: isWanted('load') })
  cleanup.defer(() => postgres.stop())
  async function createDatabase(name: string): Promise<string> {
    const client = await connect(postgres.url)
    await client.query(`create database graphs_${name}`)
    await client.end()
    return Object.assign(new URL(postgres.url), { pathname: `graphs_${name}` }).href
  }
  const languages = python ? ['javascript', 'python'] : ['javascript']
  for (const language of languages)
    if (isWanted(language)) await tryApplication(language, await createDatabase(language), python)
  if (isWanted('mixed') && python) await tryMixed(await createDatabase('mixed'))
  if (isWanted('own')) for (const language of languages) await tryOwn(language, await createDatabase(`own_${language}`))
  if (isWanted('rollout'))
    for (const language of languages)
      postgres = await tryRollout(language, postgres, await createDatabase(`rollout_${language}`))
  if (isWanted('load')) {
    const url = await createDatabase('load')
    await tryLoad({
      url,
      postgres,
      start: () => startServer(join(installed, 'javascript'), url),
      script: join(sdk, 'load.mjs'),
    })
  }
})
