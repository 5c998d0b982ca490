// The command lines and the SDKs of the reference, as they are published, and the programs that use a graph by them.
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { CACHE, check, findMissing, isInstalling } from '../../support/trial.ts'

const FOLDER = join(CACHE, 'graph-deploy')
export const PYTHON = join(FOLDER, 'python/bin/python')
export const NPM = join(FOLDER, 'npm')
export const CLI = join(NPM, 'node_modules/@langchain/langgraph-cli/dist/cli/cli.mjs')
const PYTHON_PACKAGES = ['langgraph-cli==0.4.40', 'langgraph-sdk==0.4.14']
const NPM_PACKAGES = ['@langchain/langgraph-cli@1.5.1', '@langchain/langgraph-sdk@1.15.0']
const run = promisify(execFile)

type Step = { step: string; ok: boolean; detail: string }

export async function installClients(): Promise<boolean> {
  if (isInstalling && !findMissing('python3', 'npm')) {
    mkdirSync(NPM, { recursive: true })
    if (!existsSync(PYTHON)) await run('python3', ['-m', 'venv', join(FOLDER, 'python')])
    await run(PYTHON, ['-m', 'pip', 'install', '--quiet', ...PYTHON_PACKAGES])
    writeFileSync(join(NPM, 'package.json'), '{"private": true}')
    await run('npm', ['install', '--no-audit', '--no-fund', ...NPM_PACKAGES], { cwd: NPM })
  }
  return existsSync(PYTHON) && existsSync(CLI)
}

/** Both SDKs use the graph `agent` of the examples. */
export async function checkBySdks(name: string, url: string, key: string): Promise<void> {
  const sdks: Record<string, [string, ...string[]]> = {
    Python: [PYTHON, join(import.meta.dirname, 'sdk.py'), url, key],
    JavaScript: [process.execPath, join(import.meta.dirname, 'sdk.mjs'), NPM, url, key],
  }
  for (const [language, [program, ...args]] of Object.entries(sdks)) {
    const { stdout, stderr } = await run(program, args).catch(error => error)
    const steps = `${stdout}`.split('\n').filter(line => line.startsWith('{'))
    check(`${name}: the program of ${language} ends`, steps.length === 4, stderr)
    for (const { step, ok, detail } of steps.map(line => JSON.parse(line) as Step))
      check(`${name}, ${language}: ${step}`, ok, detail)
  }
}

/** Reads the lines of `slipway logs`. A worker runs graphs beside the copy that listens. */
export const hasWorker = (output: string): boolean =>
  output
    .split('\n')
    .filter(line => line.startsWith('{'))
    .map(line => JSON.parse(line) as { process?: string; message?: string })
    .some(({ process, message = '' }) => process === 'queue' && message.includes('graphs served'))
