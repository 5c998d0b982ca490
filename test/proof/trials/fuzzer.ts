// A public fuzzer, Schemathesis, on every operation of the document, also in sequences. It needs Python: --install.
import { execFile, type StdioOptions } from 'node:child_process'
import { createWriteStream, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
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
/** Sequences follow the links of the document. The thousands that the fuzzer infers from names lead to few answers. */
const SETTINGS = `[phases.coverage]
unexpected-methods = []

[phases.stateful]
max-steps = 12

[phases.stateful.inference]
algorithms = []

[phases.stateful.generation]
mode = "positive"
`
/**
 * Each has its share of the time, so that the second is reached. One run of sequences ends after some dozens, so others
 * follow with the next seeds.
 */
const PARTS = [
  { name: 'single requests', wanted: ['examples', 'coverage', 'fuzzing'], share: 0.7, isRepeated: false },
  { name: 'sequences', wanted: ['stateful'], share: 0.3, isRepeated: true },
]
const MAX_SEQUENCES = '100'
const STDIO: StdioOptions = ['ignore', 'pipe', 'pipe']
const { values } = parseArgs({
  strict: false,
  options: {
    seed: { type: 'string', default: '1' },
    /** The maximum for an operation in the phase that makes cases at random. */
    cases: { type: 'string', default: '4' },
    /** About the maximum of the cases, right and wrong ones each, that the schemas of an operation define. */
    coverage: { type: 'string', default: '12' },
    minutes: { type: 'string', default: '25' },
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
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const keys = await fetch(`${url}/orgs/current/api-keys`, { headers: { 'X-Api-Key': api_key } })
  const { resources } = (await keys.json()) as { resources: { id: string }[] }
  return { url, api_key, tenant_id, keptIds: [tenant_id, ...resources.map(({ id }) => id)] }
}

/**
 * The header names one workspace in all cases. Without it as a parameter, the fuzzer takes it for no id that another
 * operation has to produce first.
 */
function withoutTenantHeader(document: Document): Document {
  const isOther = (parameter: unknown) => !JSON.stringify(parameter).includes('X-Tenant-Id')
  const operations = Object.entries(document.paths).map(([path, methods]) => [
    path,
    Object.fromEntries(
      Object.entries(methods).map(([method, operation]) => {
        const { parameters } = operation as { parameters?: unknown[] }
        return [method, parameters ? { ...operation, parameters: parameters.filter(isOther) } : operation]
      }),
    ),
  ])
  return { ...document, paths: Object.fromEntries(operations) }
}

async function fuzz(): Promise<void> {
  const fuzzer = await findFuzzer()
  if (!fuzzer) return skipped(`everything: needs Python and ${FUZZER}: --install`)
  await using cleanup = new AsyncDisposableStack()
  const defer = (end: () => unknown) => cleanup.defer(async () => void (await end()))
  const work = option('keep') || mkdtempSync(join(tmpdir(), 'slipway-fuzzer-'))
  mkdirSync(work, { recursive: true })
  if (!option('keep')) defer(() => rmSync(work, { recursive: true, force: true }))
  const { url, api_key, tenant_id, keptIds } = await startApp(defer)
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document

  const [settings, casesFile, schema] = ['schemathesis.toml', 'cases.jsonl', 'openapi.json'].map(name =>
    join(work, name),
  ) as [string, string, string]
  writeFileSync(schema, JSON.stringify(withoutTenantHeader(document)))
  writeFileSync(settings, SETTINGS)
  writeFileSync(casesFile, '')
  const args = [
    ...['--config-file', settings, 'run', schema, '--url', url],
    ...['-H', `X-Api-Key: ${api_key}`, '-H', `X-Tenant-Id: ${tenant_id}`],
    ...['--mode', 'all', '--checks', 'recorded', '--request-timeout', '30'],
    ...['--no-shrink', '--continue-on-failure', '--no-color'],
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
    SLIPWAY_COVERAGE_CASES: option('coverage'),
    SLIPWAY_KEPT_IDS: keptIds.join(),
  }
  const phases = option('phases').split(',')
  for (const { name, wanted, share, isRepeated } of PARTS) {
    const chosen = wanted.filter(phase => phases.includes(phase))
    if (chosen.length === 0) continue
    const minutes = Number(option('minutes')) * share
    const end = Date.now() + minutes * 60_000
    for (let run = 0; run === 0 || (isRepeated && Date.now() < end); run++) {
      const seed = String(Number(option('seed')) + run)
      const more = ['--phases', chosen.join(), '--seed', seed]
      const examples = ['--max-examples', isRepeated ? MAX_SEQUENCES : option('cases')]
      const running = startProcess({ defer }, fuzzer, [...args, ...more, ...examples], { cwd: work, env, stdio: STDIO })
      running.child.stdout!.pipe(createWriteStream(join(work, `${name}.log`), { flags: run === 0 ? 'w' : 'a' }))
      const ended = new Promise<number | null>(done => running.child.once('close', done))
      const isInTime = await Promise.race([
        ended.then(() => true),
        delay(Math.max(0, end - Date.now()), false, { ref: false }),
      ])
      if (run === 0) check(`${name} end within ${minutes.toFixed(1)} minutes`, isInTime)
      await running.end()
    }
  }
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
    ['  not reached', verdict.unreached.length],
    ['cases', verdict.cases],
    ...[...phases].map(([phase, all]): [string, number] => [`  ${phase}`, all.length]),
    ['links between operations that were followed', verdict.links],
    ['  in cases', verdict.linked],
    ['unexpected server errors', serverErrors.length],
    ['undocumented statuses', undocumentedStatuses.length],
    ['undocumented media types', undocumentedMediaTypes.length],
    ['operations that refuse what the document allows', refusing.size],
    ['  of which none is listed', unlisted.length],
  ]
  for (const [what, count] of rows) note(`${what.padEnd(50)}${String(count).padStart(8)}`)
  for (const [operation, said] of unlisted) note(`refuses: ${operation}: ${said}`)
  for (const operation of verdict.unreached) note(`not reached: ${operation}`)
  for (const operation of listedInVain) note(`listed, and refused nothing: ${operation}`)
  check('no unexpected server error', serverErrors.length === 0, serverErrors.join(', '))
  check('no undocumented status', undocumentedStatuses.length === 0, undocumentedStatuses.join(', '))
  check('no undocumented media type', undocumentedMediaTypes.length === 0, undocumentedMediaTypes.join(', '))
  check(`at most ${MAX_REFUSING} operations refuse what the document allows`, unlisted.length <= MAX_REFUSING)
}

await runTrial(fuzz)
