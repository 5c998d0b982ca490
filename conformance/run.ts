// `npm run conformance`: runs the OAuth scenarios of the MCP conformance suite over HTTP against the Worker of
// `npm run dev`, and prints one line per scenario.
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { runForOutput, startProcess } from '../bench/support/processes.ts'
import type { DevState } from '../src/host/home-folder.ts'

const PROJECT = join(import.meta.dirname, '..')
const SUITE = join(PROJECT, 'node_modules/@modelcontextprotocol/conformance/dist/index.js')
/** Scenarios that the suite `auth` leaves out. */
const EXTRA_SCENARIOS = [
  '2025-03-26-oauth-metadata-backcompat',
  '2025-03-26-oauth-endpoint-fallback',
  'resource-mismatch',
  'offline-access-scope',
  'offline-access-not-supported',
  'authorization-server-migration',
  'iss-supported',
  'iss-not-advertised',
  'iss-supported-missing',
  'iss-wrong-issuer',
  'iss-unexpected',
  'iss-normalized',
  'metadata-issuer-mismatch',
].map(name => `auth/${name}`)
/** Warnings that are not faults of ours. */
const EXPLAINED_WARNINGS: Record<string, string> = {
  'cimd-client-id-used': 'the suite accepts only its own client document; Slipway sent the address of its own',
}

type Check = { id: string; status: string; description: string; errorMessage?: string }

await using cleanup = new AsyncDisposableStack()
const folder = await mkdtemp(join(tmpdir(), 'slipway-conformance-'))
cleanup.defer(() => rm(folder, { recursive: true, force: true }))

async function startSlipway(): Promise<DevState> {
  const env = {
    ...process.env,
    SLIPWAY_HOME: join(folder, 'home'),
    PUBLIC_URL: 'https://slipway.example.com',
    MCP_DEFAULT_ENDPOINTS: 'true',
    RATE_LIMIT_PER_MINUTE: '0',
  }
  const { broken } = startProcess(
    { defer: cleanup.defer.bind(cleanup) },
    process.execPath,
    [join(PROJECT, 'src/host/dev.ts')],
    {
      cwd: PROJECT,
      env,
    },
  )
  const ready = async () => {
    for (;;) {
      const text = await readFile(join(folder, 'home/dev.json'), 'utf8').catch(() => undefined)
      if (text) return JSON.parse(text) as DevState
      await delay(100)
    }
  }
  return Promise.race([ready(), broken])
}

const { url, api_key } = await startSlipway()
const command = `${process.execPath} ${join(import.meta.dirname, 'client.ts')}`
const env = { ...process.env, SLIPWAY_URL: url, SLIPWAY_KEY: api_key }

/** The suite exits with 1 when a check fails. Its files say which. */
const runSuite = (...options: string[]) =>
  runForOutput(
    { defer: () => {} },
    process.execPath,
    [SUITE, 'client', '--command', command, '-o', join(folder, 'results'), ...options],
    { env },
  ).catch(() => {})

await runSuite('--suite', 'auth')
for (const scenario of EXTRA_SCENARIOS) await runSuite('--scenario', scenario)

const folders = (await readdir(join(folder, 'results/auth'))).toSorted()
const totals = { passed: 0, failed: 0 }
const warnings: string[] = []
for (const name of folders) {
  const scenario = name.replace(/-\d{4}-\d\d-\d\dT.*/, '')
  const checks: Check[] = JSON.parse(await readFile(join(folder, 'results/auth', name, 'checks.json'), 'utf8'))
  const checksWith = (status: string) => checks.filter(check => check.status === status)
  const [passed, failed, warned] = [checksWith('SUCCESS'), checksWith('FAILURE'), checksWith('WARNING')]
  totals.passed += passed.length
  totals.failed += failed.length
  console.log(`${failed.length > 0 ? '✗' : '✓'} ${scenario}: ${passed.length} checks passed, ${failed.length} failed`)
  for (const { id, description, errorMessage } of failed) console.log(`    ${id}: ${errorMessage ?? description}`)
  if (failed.length)
    console.log(await readFile(join(folder, 'results/auth', name, 'stderr.txt'), 'utf8').catch(() => ''))
  for (const { id, description } of warned) warnings.push(`${scenario} ${id}: ${EXPLAINED_WARNINGS[id] ?? description}`)
}
for (const warning of warnings) console.log(`warning: ${warning}`)
/** The suite `auth` has 14. */
const expected = 14 + EXTRA_SCENARIOS.length
console.log(`${folders.length} of ${expected} scenarios ran, ${warnings.length} warnings`)
console.log(`${totals.passed} passed, ${totals.failed} failed`)
if (totals.failed > 0 || folders.length !== expected) process.exitCode = 1
