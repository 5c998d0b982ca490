// A public fuzzer, Schemathesis, on every operation of the document, also in sequences. It needs Python: --install.
import { execFile } from 'node:child_process'
import { createWriteStream, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs, promisify } from 'node:util'
import { createHttpServer } from '../../../src/host/http-server.ts'
import { bootstrap } from '../../../src/people/access/bootstrap.ts'
import { startProcess } from '../support/processes.ts'
import { openTestbed } from '../support/testbed.ts'
import { CACHE, check, findMissing, isInstalling, note, runTrial, skipped } from '../support/trial.ts'
import { type Case, type Document, judge } from './fuzzer/judge.ts'
import { UNSAID } from './fuzzer/unsaid.ts'

const FUZZER = 'schemathesis==4.32.5'
const MAX_REFUSING = 20
const { values } = parseArgs({
  strict: false,
  options: {
    seed: { type: 'string', default: '1' },
    /** The maximum for an operation in the phase that makes cases at random. */
    cases: { type: 'string', default: '20' },
    minutes: { type: 'string', default: '45' },
    phases: { type: 'string', default: 'examples,coverage,fuzzing,stateful' },
    /** Operations, separated by commas. */
    only: { type: 'string', default: '' },
    /** Keeps what the fuzzer said, and the cases. */
    keep: { type: 'string', default: '' },
  },
})
const option = (name: keyof typeof values) => String(values[name])

async function findFuzzer(): Promise<string | undefined> {
  const folder = join(CACHE, FUZZER)
  const program = join(folder, 'bin/st')
  if (existsSync(program)) return program
  if (!isInstalling || findMissing('python3')) return undefined
  const run = promisify(execFile)
  await run('python3', ['-m', 'venv', folder])
  await run(join(folder, 'bin/python'), ['-m', 'pip', 'install', '--quiet', FUZZER])
  return program
}

async function startApp(defer: (end: () => unknown) => void) {
  const testbed = await openTestbed(
    { defer, seed: 1, share: 1, progress: () => {} },
    {
      settings: { UNKNOWN_KEYS_PER_MINUTE: '0', INGESTION_RATE_LIMIT_PER_MINUTE: '0' },
      overrides: {
        // No request leaves this machine.
        foreignFetch: () => Promise.reject(new TypeError('fetch failed')),
        // Streams end after their first page.
        liveStreams: { seconds: 0, trips: 45, perKey: 100, lookMs: [10, 20], keyCheckMs: 15_000 },
      },
    },
  )
  const { api_key, tenant_id } = await bootstrap(testbed.app.database, {
    organization: 'fuzzed',
    scope: 'organization',
    emails: ['ada@example.com'],
  })
  const server = createHttpServer(testbed.app.fetch)
  defer(() => server.close())
  await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, api_key, tenant_id }
}

async function fuzz(): Promise<void> {
  const fuzzer = await findFuzzer()
  if (!fuzzer) return skipped(`everything: needs Python and ${FUZZER}: --install`)
  await using cleanup = new AsyncDisposableStack()
  const defer = (end: () => unknown) => cleanup.defer(async () => void (await end()))
  const work = option('keep') || mkdtempSync(join(tmpdir(), 'slipway-fuzzer-'))
  if (!option('keep')) defer(() => rmSync(work, { recursive: true, force: true }))
  const { url, api_key, tenant_id } = await startApp(defer)
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document

  const [settings, casesFile] = [join(work, 'schemathesis.toml'), join(work, 'cases.jsonl')]
  writeFileSync(settings, '')
  writeFileSync(casesFile, '')
  const args = [
    ...['--config-file', settings, 'run', `${url}/openapi.json`],
    ...['-H', `X-Api-Key: ${api_key}`, '-H', `X-Tenant-Id: ${tenant_id}`],
    ...['--phases', option('phases'), '--mode', 'all', '--seed', option('seed'), '--max-examples', option('cases')],
    ...['--checks', 'recorded', '--no-shrink', '--continue-on-failure', '--no-color', '--request-timeout', '30'],
    ...['--generation-database', 'none', '--suppress-health-check', 'all', '--warnings', 'off'],
    ...option('only')
      .split(',')
      .filter(Boolean)
      .flatMap(name => ['--include-operation-id', name]),
  ]
  const env = {
    ...process.env,
    PYTHONPATH: join(import.meta.dirname, 'fuzzer'),
    PYTHONDONTWRITEBYTECODE: '1',
    SCHEMATHESIS_HOOKS: 'record',
    SLIPWAY_CASES: casesFile,
  }
  const running = startProcess({ defer }, fuzzer, args, { cwd: work, env, stdio: ['ignore', 'pipe', 'pipe'] })
  running.child.stdout!.pipe(createWriteStream(join(work, 'fuzzer.log')))
  const ended = new Promise<number | null>(done => running.child.once('close', done))
  const isInTime = await Promise.race([
    ended.then(() => true),
    delay(Number(option('minutes')) * 60_000, false, { ref: false }),
  ])
  check(`the fuzzer ends within ${option('minutes')} minutes`, isInTime)
  await running.end()
  const lines = readFileSync(casesFile, 'utf8').split('\n').slice(0, -1)
  report(
    document,
    lines.map(line => JSON.parse(line) as Case),
  )
}

function report(document: Document, cases: Case[]): void {
  const verdict = judge(document, cases)
  const { serverErrors, undocumentedStatuses, undocumentedMediaTypes, refusing, listedInVain } = verdict
  const unlisted = [...refusing].filter(([operation]) => !(operation in UNSAID))
  const phases = Map.groupBy(cases, ({ phase }) => phase)
  const rows: [what: string, count: number][] = [
    ['operations', verdict.operations],
    ['cases', verdict.cases],
    ...[...phases].map(([phase, all]): [string, number] => [`  ${phase}`, all.length]),
    ['unexpected server errors', serverErrors.length],
    ['undocumented statuses', undocumentedStatuses.length],
    ['undocumented media types', undocumentedMediaTypes.length],
    ['operations that refuse what the document allows', refusing.size],
    ['  of which none is listed', unlisted.length],
  ]
  for (const [what, count] of rows) note(`${what.padEnd(50)}${String(count).padStart(8)}`)
  for (const [operation, said] of unlisted) note(`refuses: ${operation}: ${said}`)
  for (const operation of listedInVain) note(`listed, and refused nothing: ${operation}`)
  check('no unexpected server error', serverErrors.length === 0, serverErrors.join(', '))
  check('no undocumented status', undocumentedStatuses.length === 0, undocumentedStatuses.join(', '))
  check('no undocumented media type', undocumentedMediaTypes.length === 0, undocumentedMediaTypes.join(', '))
  check(`at most ${MAX_REFUSING} operations refuse what the document allows`, unlisted.length <= MAX_REFUSING)
}

await runTrial(fuzz)
