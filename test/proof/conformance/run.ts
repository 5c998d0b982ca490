// `npm run conformance -- [oauth|server|authorization]`: runs the MCP conformance suite, by default all of it.

import { formatCounts } from '../support/counts.ts'
import { HOSTS, type StartInstallation } from '../support/two-hosts.ts'
import { runAuthorizationScenarios } from './authorization.ts'
import { OAUTH_SETTINGS, runOAuthScenarios } from './oauth.ts'
import { runServerScenarios } from './server.ts'
import type { Totals } from './suite.ts'

type Run = (cleanup: AsyncDisposableStack, installation: Awaited<ReturnType<StartInstallation>>) => Promise<Totals>
type Part = { name: string; host: keyof typeof HOSTS; settings?: Record<string, string>; run: Run }

const PARTS: Part[] = [
  { name: 'oauth', host: 'workerd', settings: OAUTH_SETTINGS, run: runOAuthScenarios },
  { name: 'server', host: 'workerd', run: runServerScenarios },
  { name: 'server', host: 'Node', run: runServerScenarios },
  { name: 'authorization', host: 'workerd', run: runAuthorizationScenarios },
  { name: 'authorization', host: 'Node', run: runAuthorizationScenarios },
]

const wanted = process.argv.slice(2)
const unknown = wanted.filter(name => !PARTS.some(part => part.name === name))
if (unknown.length > 0) {
  console.error(`There is no part ${unknown.join(', ')}. Choose from: oauth, server, authorization.`)
  process.exit(2)
}
const total = { passed: 0, failed: 0, skipped: 0 }
for (const { name, host, settings, run } of PARTS) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  await using cleanup = new AsyncDisposableStack()
  console.log(`\n== ${name}, on ${host}`)
  const { passed, failed } = await run(cleanup, await HOSTS[host](cleanup, settings))
  console.log(`${name}, on ${host}: ${passed} passed, ${failed} failed`)
  total.passed += passed
  total.failed += failed
}
console.log(formatCounts(total))
if (total.failed > 0) process.exitCode = 1
