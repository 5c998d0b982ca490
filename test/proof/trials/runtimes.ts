// The published clients, unchanged, against the app on Node, Deno, Bun and workerd. One needs Python: --install.
// `--only=workerd` runs one of them.
import { execFile } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { CACHE, check, failed, findMissing, isInstalling, note, runTrial, skipped } from '../support/trial.ts'
import { prepareInstallation } from './deploy/self-host.ts'
import { tryContractLimits } from './runtimes/contract-limits.ts'
import { SERVERS, type Server } from './runtimes/servers.ts'
import { type Outcome, TRACING_CLIENTS } from './runtimes/tracing-clients.ts'

const run = promisify(execFile)
const only = process.argv.find(argument => argument.startsWith('--only='))?.slice('--only='.length)
/** The command line of the reference API, on PyPI. */
const CONTROL_PLANE_CLIENT = 'langgraph-cli==0.4.40'
const APPLICATION = {
  'langgraph.json': '{"dependencies": ["."], "graphs": {"agent": "./agent.py:graph"}}',
  'agent.py': 'graph = None\n',
  'pyproject.toml': '[project]\nname = "application"\nversion = "0"\n',
}
const PROGRAM = join(import.meta.dirname, 'runtimes/control-plane-client.py')

/** The Python that has the client, if it is there or may be installed. */
async function findPython(): Promise<string | undefined> {
  const folder = join(CACHE, CONTROL_PLANE_CLIENT)
  const python = join(folder, 'bin/python')
  if (existsSync(python)) return python
  if (!isInstalling || findMissing('python3')) return undefined
  await run('python3', ['-m', 'venv', folder])
  await run(python, ['-m', 'pip', 'install', '--quiet', CONTROL_PLANE_CLIENT])
  return python
}

/** The client of the command line, and the command line itself with an application that it accepts. */
const tryControlPlaneClient =
  (python: string, folder: string) =>
  async ({ url, key }: Server): Promise<Outcome[]> => {
    const application = mkdtempSync(join(folder, 'application-'))
    for (const [name, text] of Object.entries(APPLICATION)) writeFileSync(join(application, name), text)
    const env = { PATH: process.env.PATH, HOME: application, LANGGRAPH_HOST_URL: url, LANGSMITH_API_KEY: key }
    const outcomes: Outcome[] = []
    const runStep = async (what: string, program: string, ...args: string[]) => {
      const outcome = await run(program, args, { cwd: application, env }).then(
        ({ stdout }) => ({ isTrue: true, detail: stdout }),
        ({ stderr }) => ({ isTrue: false, detail: stderr as string }),
      )
      outcomes.push({ what, ...outcome })
      return outcome.detail
    }
    await runStep(
      'the client creates, uploads, patches, lists, reads revisions and logs, deletes',
      python,
      PROGRAM,
      url,
      key,
    )
    const command = join(python, '../langgraph')
    const name = `published-${crypto.randomUUID().slice(0, 8)}`
    const options = ['--remote', '--no-wait', '--deployment-type', 'dev', '--name', name]
    const deployed = await runStep('the command line deploys a folder', command, 'deploy', ...options)
    const id = /deployments\/([0-9a-f-]{36})/.exec(deployed)?.[1] ?? ''
    const listed = await runStep('and lists deployments', command, 'deploy', 'list', '--json')
    outcomes.push({ what: 'of which one is the folder', isTrue: id !== '' && listed.includes(id), detail: listed })
    await runStep('and revisions', command, 'deploy', 'revisions', 'list', id)
    await runStep('and deletes it', command, 'deploy', 'delete', '--force', id)
    return outcomes
  }

await runTrial(async () => {
  await using cleanup = new AsyncDisposableStack()
  const folder = mkdtempSync(join(tmpdir(), 'slipway-runtimes-'))
  chmodSync(folder, 0o755)
  cleanup.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 9 }))
  const installation = await prepareInstallation(cleanup, folder)
  const python = await findPython()
  if (!python) skipped(`the control plane client: needs Python and ${CONTROL_PLANE_CLIENT}: --install`)
  const clients = {
    ...(python && { [CONTROL_PLANE_CLIENT.replace('==', ' ')]: tryControlPlaneClient(python, folder) }),
    ...TRACING_CLIENTS,
    'limits of the contract': tryContractLimits,
  }

  const table: Record<string, Record<string, string>> = {}
  for (const [runtime, start] of Object.entries(SERVERS)) {
    if (only !== undefined && only !== runtime) continue
    table[runtime] = {}
    await using ending = new AsyncDisposableStack()
    const server = await start(ending, installation).catch((error: Error) => failed(`${runtime}: ${error.message}`))
    if (!server) continue
    for (const [name, tryClient] of Object.entries(clients)) {
      const outcomes = await tryClient(server).catch((error: Error): Outcome[] => [
        { what: 'ends without an error', isTrue: false, detail: error.stack ?? error.message },
      ])
      for (const { what, isTrue, detail } of outcomes) check(`${runtime}, ${name}: ${what}`, isTrue, detail)
      const passed = outcomes.filter(({ isTrue }) => isTrue).length
      table[runtime][name] = `${passed}/${outcomes.length}`
    }
  }
  printTable(Object.keys(clients), table)
})

/** Checks that passed, of each client on each runtime. */
function printTable(clients: string[], table: Record<string, Record<string, string>>): void {
  const runtimes = Object.keys(table)
  const width = Math.max(...clients.map(name => name.length)) + 2
  note(''.padEnd(width) + runtimes.map(name => name.padEnd(9)).join(''))
  for (const name of clients)
    note(name.padEnd(width) + runtimes.map(runtime => (table[runtime]![name] ?? 'FAILED').padEnd(9)).join(''))
}
