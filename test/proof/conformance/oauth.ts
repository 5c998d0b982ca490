// The OAuth scenarios of the suite for clients: Slipway signs in at the servers of the suite, as an OAuth client.
import { join } from 'node:path'
import type { Installation } from '../support/two-hosts.ts'
import { checksWith, makeResultsFolder, readResults, runSuite, type Totals } from './suite.ts'

/** Slipway's address in redirects. Nothing serves it. */
export const OAUTH_SETTINGS = { PUBLIC_URL: 'https://slipway.example.com', MCP_DEFAULT_ENDPOINTS: 'true' }
/** The suite `auth`. */
const SUITE_SCENARIOS = 14
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

export async function runOAuthScenarios(cleanup: AsyncDisposableStack, { url, key }: Installation): Promise<Totals> {
  const folder = await makeResultsFolder(cleanup)
  const command = `${process.execPath} ${join(import.meta.dirname, 'oauth-client.ts')}`
  const env = { ...process.env, SLIPWAY_URL: url, SLIPWAY_KEY: key }
  const run = (...options: string[]) => runSuite(['client', '--command', command, '-o', folder, ...options], env)
  await run('--suite', 'auth')
  for (const scenario of EXTRA_SCENARIOS) await run('--scenario', scenario)

  const scenarios = await readResults(join(folder, 'auth'))
  const totals = { passed: 0, failed: 0 }
  const warnings: string[] = []
  for (const scenario of scenarios) {
    const [passed, failed] = [checksWith(scenario, 'SUCCESS'), checksWith(scenario, 'FAILURE')]
    totals.passed += passed.length
    totals.failed += failed.length
    const mark = failed.length > 0 ? '✗' : '✓'
    console.log(`${mark} ${scenario.name}: ${passed.length} checks passed, ${failed.length} failed`)
    for (const { id, description, errorMessage } of failed) console.log(`    ${id}: ${errorMessage ?? description}`)
    if (failed.length) console.log(scenario.stderr)
    for (const { id, description } of checksWith(scenario, 'WARNING'))
      warnings.push(`${scenario.name} ${id}: ${EXPLAINED_WARNINGS[id] ?? description}`)
  }
  for (const warning of warnings) console.log(`warning: ${warning}`)
  const expected = SUITE_SCENARIOS + EXTRA_SCENARIOS.length
  console.log(`${scenarios.length} of ${expected} scenarios ran, ${warnings.length} warnings`)
  if (scenarios.length !== expected) totals.failed++
  return totals
}
