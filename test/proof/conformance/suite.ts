// The MCP conformance suite as a process, and the files in which it leaves its checks.
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runForOutput } from '../support/processes.ts'

const PROJECT = join(import.meta.dirname, '../../..')
export const SUITE = join(PROJECT, 'node_modules/@modelcontextprotocol/conformance/dist/index.js')

export type Check = { id: string; status: string; description: string; errorMessage?: string }
export type Scenario = { name: string; checks: Check[]; stderr: string }

export async function makeResultsFolder(cleanup: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'slipway-conformance-'))
  cleanup.defer(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** The suite exits with 1 when a check fails. Its files say which. */
export async function runSuite(args: string[], env: NodeJS.ProcessEnv = process.env): Promise<void> {
  await runForOutput({ defer: () => {} }, process.execPath, [SUITE, ...args], { env }).catch(() => {})
}

/** The scenarios that left results, in the order of their names. */
export async function readResults(folder: string, prefix = ''): Promise<Scenario[]> {
  const names = (await readdir(folder)).filter(name => name.startsWith(prefix)).toSorted()
  return Promise.all(
    names.map(async name => ({
      name: name.slice(prefix.length).replace(/-\d{4}-\d\d-\d\dT.*/, ''),
      checks: JSON.parse(await readFile(join(folder, name, 'checks.json'), 'utf8')) as Check[],
      stderr: await readFile(join(folder, name, 'stderr.txt'), 'utf8').catch(() => ''),
    })),
  )
}

export const checksWith = ({ checks }: Scenario, status: string): Check[] =>
  checks.filter(check => check.status === status)

export type Totals = { passed: number; failed: number }
