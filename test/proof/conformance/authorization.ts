// The scenarios of the suite for authorization servers. A person approves what the suite asks for.

import { findFreePort } from '../../../src/postgres/free-port.ts'
import { signIn } from '../support/oauth-person.ts'
import { startProcess } from '../support/processes.ts'
import type { Installation } from '../support/two-hosts.ts'
import { checksWith, makeResultsFolder, readResults, SUITE, type Totals } from './suite.ts'

const SCENARIOS = 2

export async function runAuthorizationScenarios(
  cleanup: AsyncDisposableStack,
  installation: Installation,
): Promise<Totals> {
  const { url } = installation
  const folder = await makeResultsFolder(cleanup)
  const person = await signIn(installation)
  const port = await findFreePort()
  const registered = await fetch(`${url}/oauth/register`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ client_name: 'Conformance', redirect_uris: [`http://127.0.0.1:${port}/callback`] }),
  })
  const { client_id } = (await registered.json()) as { client_id: string }
  const options = ['--url', url, '--client-id', client_id, '--resource', `${url}/mcp`, '-p', String(port), '-o', folder]
  const suite = startProcess(
    { defer: end => cleanup.defer(async () => void (await end())) },
    process.execPath,
    [SUITE, 'authorization', ...options],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  )
  let printed = ''
  suite.child.stdout!.setEncoding('utf8').on('data', async (text: string) => {
    printed += text
    const [, address] = /^(http\S+\/oauth\/authorize\?\S+)\n/m.exec(printed) ?? []
    if (!address) return
    printed = ''
    const approved = person.approve(address).then(answer => fetch(answer))
    await approved.catch((error: Error) => console.log(`    ${error.message}`))
  })
  await suite.broken.catch(() => {})

  const scenarios = await readResults(folder)
  const totals = { passed: 0, failed: 0 }
  for (const scenario of scenarios) {
    const [passed, failed] = [checksWith(scenario, 'SUCCESS'), scenario.checks.filter(isFault)]
    totals.passed += passed.length
    totals.failed += failed.length
    const mark = failed.length > 0 ? '✗' : '✓'
    console.log(`${mark} ${scenario.name}: ${passed.length} checks passed, ${failed.length} failed`)
    for (const { id, status, description, errorMessage } of failed)
      console.log(`    ${status} ${id}: ${errorMessage ?? description}`)
  }
  if (scenarios.length !== SCENARIOS) {
    console.log(`✗ ${scenarios.length} of ${SCENARIOS} scenarios ran`)
    totals.failed++
  }
  return totals
}

const isFault = ({ status }: { status: string }) => status !== 'SUCCESS' && status !== 'INFO'
