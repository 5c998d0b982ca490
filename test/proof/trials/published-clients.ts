// The newest published clients, unchanged: both command lines and both SDKs. `--record` keeps their requests for
// test/connect/words/recorded-clients.test.ts. They need Python and npm: --install.
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createHttpServer } from '../../../src/host/http-server.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { createRecorder, type Session } from '../../support/recorded-sessions.ts'
import { openTestbed } from '../support/testbed.ts'
import { CACHE, check, findMissing, isInstalling, note, runTrial, skipped } from '../support/trial.ts'

const FOLDER = join(CACHE, 'published-clients')
const PROGRAMS = join(import.meta.dirname, 'published')
const SESSIONS = join(import.meta.dirname, '../../support/recorded-sessions.json')
const PYTHON_PACKAGES = ['langgraph-cli', 'langsmith']
const NPM_PACKAGES = ['@langchain/langgraph-cli', 'langsmith']
const APPLICATION = {
  'langgraph.json': '{"dependencies": ["."], "graphs": {"agent": "./agent.py:graph"}, "env": {"TOKEN": "github"}}',
  'agent.py': 'graph = None\n',
  'pyproject.toml': '[project]\nname = "application"\nversion = "0"\n',
}
const JAVASCRIPT_APPLICATION = {
  'langgraph.json': '{"node_version": "20", "graphs": {"agent": "./agent.mjs:graph"}, "env": {"TOKEN": "github"}}',
  'agent.mjs': 'export const graph = null\n',
  'package.json': '{"name": "application", "type": "module"}',
}
const DIGEST = `sha256:${'0'.repeat(64)}`

type Installation = { url: string; key: string; setSession: (name: string) => void; sessions: Session[] }
type Row = { client: string; command: string; result: string }

async function installClients(): Promise<
  { python: string; cli: string; versions: Record<string, string> } | undefined
> {
  const python = join(FOLDER, 'python/bin/python')
  const npm = join(FOLDER, 'npm')
  const cli = join(npm, 'node_modules/@langchain/langgraph-cli')
  if (isInstalling && !findMissing('python3', 'npm')) {
    mkdirSync(npm, { recursive: true })
    if (!existsSync(python)) await promisify(execFile)('python3', ['-m', 'venv', join(FOLDER, 'python')])
    await promisify(execFile)(python, ['-m', 'pip', 'install', '--quiet', '--upgrade', ...PYTHON_PACKAGES])
    writeFileSync(join(npm, 'package.json'), '{"private": true}')
    const newest = NPM_PACKAGES.map(name => `${name}@latest`)
    await promisify(execFile)('npm', ['install', '--no-audit', '--no-fund', ...newest], { cwd: npm })
  }
  if (!existsSync(python) || !existsSync(cli)) return undefined
  const { stdout } = await promisify(execFile)(python, ['-m', 'pip', 'list', '--format=freeze'])
  const versionOf = (folder: string) => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).version as string
  return {
    python,
    cli: join(cli, 'dist/cli/cli.mjs'),
    versions: {
      ...Object.fromEntries(
        PYTHON_PACKAGES.map(name => [
          `${name} (PyPI)`,
          stdout
            .split('\n')
            .find(line => line.startsWith(`${name}==`))
            ?.split('==')[1] ?? '',
        ]),
      ),
      '@langchain/langgraph-cli (npm)': versionOf(cli),
      'langsmith (npm)': versionOf(join(npm, 'node_modules/langsmith')),
    },
  }
}

/** An installation of its own on a port, whose requests are recorded. */
async function serve(cleanup: AsyncDisposableStack, mode: string): Promise<Installation> {
  const defer = (end: () => unknown) => cleanup.defer(async () => void (await end()))
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const settings = { ALLOW_LOOPBACK: 'true', PUBLIC_URL: url, CONTRACT_WORDS: 'langgraph', SLIPWAY_MODE: mode }
  const testbed = await openTestbed({ defer, seed: 1, share: 1, progress: () => {} }, { settings })
  const { api_key } = await testbed.tenant()
  const recorder = createRecorder(request => testbed.app.fetch(request))
  const server = createHttpServer(recorder.fetch)
  defer(() => server.close())
  await new Promise<void>(listening => server.listen(port, '127.0.0.1', listening))
  const setSession = (name: string) => recorder.begin(name, mode)
  return { url, key: api_key, setSession, sessions: recorder.sessions }
}

await runTrial(async () => {
  await using cleanup = new AsyncDisposableStack()
  const clients = await installClients()
  if (!clients) return skipped('the published clients need Python, npm and their packages: --install')
  const { python, cli, versions } = clients
  const work = mkdtempSync(join(tmpdir(), 'slipway-published-'))
  cleanup.defer(() => rmSync(work, { recursive: true, force: true }))
  const hosted = await serve(cleanup, 'saas')
  const selfHosted = await serve(cleanup, 'self_hosted')
  const rows: Row[] = []

  const run = async ({ url, key }: Installation, folder: string, program: string, ...args: string[]) => {
    const env = { PATH: process.env.PATH, HOME: work, LANGGRAPH_HOST_URL: url, LANGSMITH_API_KEY: key }
    return promisify(execFile)(program, args, { cwd: folder, env: { ...env, LANGGRAPH_CLI_NO_ANALYTICS: '1' } }).then(
      ({ stdout, stderr }) => ({ ok: true, output: stdout + stderr }),
      ({ stdout, stderr, message }) => ({ ok: false, output: `${stdout ?? ''}${stderr ?? ''}` || message }),
    )
  }
  const makeFolder = (name: string, files: object) => {
    const folder = join(work, name)
    mkdirSync(folder)
    for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text)
    return folder
  }
  const report = (client: string, command: string, ok: boolean, output: string, wanted = 'works') => {
    rows.push({ client, command, result: ok ? wanted : 'FAILED' })
    check(`${client}: ${command}: ${wanted}`, ok, output)
  }

  /** Both command lines have the same commands. */
  const tryCommandLine = async (client: string, folder: string, start: string[], more: string[][]) => {
    const call = (installation: Installation, ...args: string[]) => {
      const [program, ...first] = start as [string, ...string[]]
      return run(installation, folder, program, ...first, 'deploy', ...args)
    }
    hosted.setSession(client)
    const name = `published-${crypto.randomUUID().slice(0, 8)}`
    const url = more.length > 0 ? [] : ['--host-url', hosted.url]
    const deployed = await call(hosted, '--remote', '--no-wait', '--no-input', ...url, '--name', name)
    const id = /deployments\/([0-9a-f-]{36})/.exec(deployed.output)?.[1] ?? ''
    report(client, 'deploy --remote', deployed.ok && id !== '', deployed.output)
    const again = await call(hosted, '--remote', '--no-wait', '--no-input', ...url, '--name', name)
    report(client, 'deploy --remote, again', again.ok && again.output.includes(id), again.output)
    const listed = await call(hosted, 'list', ...url, '--name-contains', name)
    report(client, 'deploy list', listed.ok && listed.output.includes(id), listed.output)
    const revisions = await call(hosted, 'revisions', 'list', ...url, id)
    report(client, 'deploy revisions list', revisions.ok && !/No revisions/.test(revisions.output), revisions.output)
    for (const type of ['deploy', 'build']) {
      const logs = await call(hosted, 'logs', ...url, '--type', type, '--name', name)
      report(client, `deploy logs --type ${type}`, logs.ok, logs.output)
    }
    for (const args of more) {
      const refused = args[0] === 'REFUSED'
      const { ok, output } = await call(hosted, ...(refused ? args.slice(1) : args))
      const isRight = refused ? !ok && output.includes('is not supported') : ok
      report(
        client,
        `deploy ${args.slice(refused ? 1 : 0).join(' ')}`,
        isRight,
        output,
        refused ? 'refused by name' : 'works',
      )
    }
    const deleted = await call(hosted, 'delete', ...url, '--force', id)
    report(client, 'deploy delete', deleted.ok, deleted.output)
  }

  const agent = ['--agent-id', 'a', '--agent-environment', 'staging']
  const langgraph = join(python, '../langgraph')
  const application = makeFolder('python', APPLICATION)
  await tryCommandLine(
    'langgraph-cli (PyPI)',
    application,
    [langgraph],
    [
      ['list', '--json'],
      ['listeners', 'list'],
      ['REFUSED', 'list', ...agent],
      ['REFUSED', '--remote', '--no-wait', '--no-input', ...agent],
    ],
  )
  selfHosted.setSession('langgraph-cli (PyPI), self-hosted')
  const image = [
    '--image-uri',
    `registry.example.com/app@${DIGEST}`,
    '--image-pull-secret',
    'pull',
    '--name',
    'external',
  ]
  for (const what of ['deploy --image-uri', 'deploy --image-uri, again']) {
    const args = what.endsWith('again') ? image.filter(arg => !/pull/.test(arg)) : image
    const { ok, output } = await run(selfHosted, application, langgraph, 'deploy', '--no-wait', '--no-input', ...args)
    report('langgraph-cli (PyPI)', what, ok, output)
  }
  const javascript = makeFolder('javascript', JAVASCRIPT_APPLICATION)
  await tryCommandLine('@langchain/langgraph-cli (npm)', javascript, [process.execPath, cli], [])

  const sdks: Record<string, [program: string, ...args: string[]]> = {
    'langgraph-cli (PyPI), its client': [python, join(PROGRAMS, 'images.py')],
    'langsmith (PyPI)': [python, join(PROGRAMS, 'sdk.py')],
    'langsmith (npm)': [process.execPath, join(PROGRAMS, 'sdk.mjs'), join(FOLDER, 'npm')],
  }
  for (const [client, [program, ...args]] of Object.entries(sdks)) {
    hosted.setSession(client)
    const { output } = await run(hosted, work, program, ...args, hosted.url, hosted.key)
    const lines = output.split('\n').filter((line: string) => line.startsWith('{"step"'))
    const steps = lines.map((line: string) => JSON.parse(line) as { step: string; ok: boolean; detail: string })
    check(`${client}: its program ends`, steps.at(-1)?.step.startsWith('version') ?? false, output)
    for (const { step, ok, detail } of steps.slice(0, -1)) {
      const isRefusal = step.startsWith('refused: ')
      if (isRefusal) report(client, step.slice(9), !ok && detail.includes('Slipway has no'), detail, 'refused by name')
      else report(client, step, ok, detail)
    }
  }

  const width = Math.max(...rows.map(({ client }) => client.length)) + 12
  for (const { client, command, result } of rows)
    note(`${`${client} ${versions[client.split(',')[0]!] ?? ''}`.padEnd(width)}${command.padEnd(70)}${result}`)
  if (process.argv.includes('--record')) {
    const sessions = [...hosted.sessions, ...selfHosted.sessions]
    writeFileSync(
      SESSIONS,
      `${JSON.stringify({ recorded_at: new Date().toISOString(), versions, sessions }, null, 1)}\n`,
    )
  }
})
