// Five graphs after public tutorials, from their folder to an answer: deployed by the newest command lines, unchanged,
// and by our own, then used by the SDKs. The model is a server of this machine. They need Python and npm: --install.
import { execFile } from 'node:child_process'
import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { check, note, runTrial, skipped } from '../support/trial.ts'
import { installClients, NPM, PYTHON } from './graph-deploy/clients.ts'
import { deployCommands, type Installation, makeWorkFolder, read, startDev } from './graph-deploy/dev.ts'
import { startModel } from './graph-examples/model.ts'

const ROOT = join(import.meta.dirname, '../../..')
const EXAMPLES = {
  'react-agent': 'python',
  supervisor: 'python',
  rag: 'javascript',
  'human-in-the-loop': 'javascript',
  'plan-and-execute': 'javascript',
} as const
type Example = keyof typeof EXAMPLES
const run = promisify(execFile)

async function use(example: Example, by: string, url: string, key: string): Promise<void> {
  const file = (name: string) => join(import.meta.dirname, 'graph-examples', name)
  const [program, ...args] =
    EXAMPLES[example] === 'python'
      ? [PYTHON, file('use.py'), example, url, key]
      : [process.execPath, file('use.mjs'), NPM, example, url, key]
  const { stdout, stderr, code = 0 } = await run(program!, args).catch(error => error)
  check(`${example}, ${by}: the program ends`, code === 0, stderr)
  for (const line of `${stdout}`.split('\n').filter(text => text.startsWith('{'))) {
    const { step, ok, detail } = JSON.parse(line) as { step: string; ok: boolean; detail: string }
    check(`${example}, ${by}: ${step}`, ok, detail)
  }
}

async function useDeployment(installation: Installation, name: string, example: Example, by: string): Promise<void> {
  const { resources } = await read(installation, `/v2/deployments?name=${name}`)
  const found = await read(installation, `/v2/deployments/${resources?.[0]?.id}?reveal=true`)
  check(`${example}, ${by}: it has an address and a key`, Boolean(found.local_url && found.application_key))
  if (found.local_url) await use(example, by, found.local_url, found.application_key)
}

/** The id of a model configuration, with which applications need no key of a provider. */
async function addModel({ url, api_key }: Installation, base_url: string): Promise<string> {
  const headers = { 'X-Api-Key': api_key, 'Content-Type': 'application/json' }
  const body = JSON.stringify({ name: 'same', provider: 'openai_compatible', base_url, model: 'same', secret: 'none' })
  const response = await fetch(`${url}/v1/model-configurations`, { method: 'POST', headers, body })
  const { id } = (await response.json()) as { id: string }
  return id
}

await runTrial(async () => {
  if (!(await installClients())) return skipped('the command lines need Python, npm and their packages: --install')
  await using cleanup = new AsyncDisposableStack()
  const work = makeWorkFolder(cleanup)
  const model = await startModel(cleanup)
  const installation = await startDev(cleanup, join(work, 'home'))
  const { env, ...commands } = deployCommands(installation, work)
  for (const [example, language] of Object.entries(EXAMPLES) as [Example, keyof typeof commands][]) {
    const folder = join(work, example)
    cpSync(join(ROOT, 'examples/graphs', example), folder, { recursive: true })
    writeFileSync(join(folder, '.env'), `OPENAI_API_KEY=none\nOPENAI_BASE_URL=${model}\n`)
    const [program, ...first] = commands[language]
    const since = performance.now()
    const args = [...first, '--remote', '--no-input', '--name', example]
    const { stdout, stderr, code = 0 } = await run(program, args, { cwd: folder, env }).catch(error => error)
    note(`${example}: ${((performance.now() - since) / 1000).toFixed(1)} s from the command to its end`)
    check(`${example}: the command line deploys it`, code === 0, `${stdout}${stderr}`)
    await useDeployment(installation, example, example, 'their command line')
  }

  const id = await addModel(installation, model.replace('127.0.0.1', 'localhost'))
  const own = { ...process.env, SLIPWAY_URL: installation.url, SLIPWAY_API_KEY: installation.api_key }
  for (const example of ['react-agent', 'human-in-the-loop'] as const) {
    const name = `own-${example}`
    const deploy = ['deploy', join(ROOT, 'examples/graphs', example), '--create', '--name', name, '--yes']
    const {
      stdout,
      stderr,
      code = 0,
    } = await run(process.execPath, [join(ROOT, 'src/cli/main.ts'), ...deploy, '--env', `OPENAI_MODEL_ID=${id}`], {
      cwd: work,
      env: own,
    }).catch(error => error)
    check(`${example}: slipway deploy needs no key of a provider`, code === 0, `${stdout}${stderr}`)
    await useDeployment(installation, name, example, 'slipway deploy')
  }
})
