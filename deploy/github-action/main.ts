// The program of the Action: signs in, runs the command line beside it, and writes outputs and the summary of the job.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type Inputs, readInputs, type TriggerEvent } from './inputs.ts'
import { describe, type Failure, type Outcome, type Plan } from './summary.ts'
import { addPath, addSummary, command, mask, setOutputs, setVariables, withoutCommands } from './workflow-commands.ts'

/** A line of the command line. Members depend on its `type`. */
type Line = {
  type?: string
  message?: string
  outcome?: string
  deployment_id?: string
  id?: string
  name?: string
  url?: string | null
  revision_id?: string | null
  number?: number
  status?: string
  files?: number
  bytes?: number
}
type Result = { lines: Line[]; failure?: Failure }

const { env } = process
const CLI = join(import.meta.dirname, 'slipway.mjs')
/** GitHub keeps 1 MB of all outputs of a job. */
const MAX_PLAN_LENGTH = 200_000

const children = new Set<ChildProcess>()
let isCancelled = false
// A revision that was applied goes on. The command line says so, and ends.
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    isCancelled = true
    for (const child of children) child.kill('SIGINT')
  })

/** With the key in a folder of its own, which a self-hosted runner does not keep. */
function createSlipway({ url, workspace }: Inputs) {
  const folder = fs.mkdtempSync(join(env.RUNNER_TEMP || tmpdir(), 'slipway-'))
  const settings = { SLIPWAY_URL: url, SLIPWAY_WORKSPACE: workspace, SLIPWAY_CONFIG_HOME: folder }

  const run = (...args: string[]) => withoutCommands(() => runCommand(args))
  async function runCommand(args: string[]): Promise<Result> {
    const child = spawn(process.execPath, [CLI, '--json', ...args], {
      env: { ...env, ...settings },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    children.add(child)
    const closed = once(child, 'close')
    const lines: Line[] = []
    let errors = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors += text
    })
    for await (const text of createInterface({ input: child.stdout })) {
      const line = parseLine(text)
      lines.push(line)
      show(line)
    }
    const [code] = (await closed) as [number | null]
    children.delete(child)
    if (code === 0) return { lines }
    return { lines, failure: readFailure(errors, code) }
  }
  return { run, folder, settings, remove: () => fs.rmSync(folder, { recursive: true, force: true }) }
}

function parseLine(text: string): Line {
  try {
    return JSON.parse(text) as Line
  } catch {
    return { type: 'text', message: text }
  }
}

function readFailure(errors: string, code: number | null): Failure {
  const last = errors.trim().split('\n').at(-1) ?? ''
  try {
    return JSON.parse(last) as Failure
  } catch {
    return { code: 'unexpected', message: `slipway ended with ${code}. ${last.slice(0, 1000)}` }
  }
}

/** For people who read the log of the job. */
function show({ type, message, number, status, files, outcome, name }: Line): void {
  const text = {
    archive: () => `Packed ${files} files.`,
    revision: () => `Revision ${number} is ${status}.`,
    log: () => `  ${message}`,
    text: () => `${message}`,
    result: () => `${name ?? 'Slipway'}: ${outcome}`,
  }[type ?? '']
  if (text) console.log(text())
}

type Slipway = ReturnType<typeof createSlipway>

/** With the token of the job, or with a key that the workflow has set. */
async function signIn({ run, folder }: Slipway, { url, workspace, audience }: Inputs): Promise<Failure | undefined> {
  if (env.SLIPWAY_API_KEY) {
    mask(env.SLIPWAY_API_KEY)
    return undefined
  }
  const { failure } = await run(
    'login',
    '--oidc',
    '--url',
    url,
    '--workspace',
    workspace,
    ...(audience ? [`--audience=${audience}`] : []),
  )
  if (failure) return failure
  const { key } = JSON.parse(fs.readFileSync(join(folder, 'login.json'), 'utf8')) as { key: string }
  mask(key)
  return undefined
}

async function deploy(slipway: Slipway, inputs: Inputs): Promise<Outcome> {
  const { mode, name, folder, image, create, timeout } = inputs
  const isPlan = mode === 'plan'
  const args = isPlan ? ['plan'] : ['deploy', '--yes', '--timeout', timeout, ...(create ? ['--create'] : [])]
  return follow(slipway, inputs, [...args, '--name', name, image === '' ? folder : `--image=${image}`])
}

async function preview(slipway: Slipway, inputs: Inputs): Promise<Outcome> {
  const { name, preview, folder, image, timeout } = inputs
  const source = image === '' ? folder : `--image=${image}`
  return follow(slipway, inputs, ['preview', '--timeout', timeout, `--branch=${preview}`, '--name', name, source])
}

async function follow({ run }: Slipway, { mode, name }: Inputs, args: string[]): Promise<Outcome> {
  const { lines, failure } = await run(...args)
  const plan = lines.findLast(({ type }) => type === 'plan') as Plan | undefined
  const revision = lines.findLast(({ type }) => type === 'revision')
  const result = lines.findLast(({ type }) => type === 'result')
  setOutputs({
    'deployment-id': result?.deployment_id ?? revision?.deployment_id ?? '',
    'revision-id': result?.revision_id ?? revision?.revision_id ?? '',
    'preview-id': lines.findLast(({ type }) => type === 'preview')?.id ?? '',
  })
  const outcome = failure?.code ?? (mode === 'plan' ? 'planned' : (result?.outcome ?? 'unexpected'))
  return { outcome, name: result?.name ?? name, url: result?.url, revision: revision?.number, plan, failure }
}

async function removePreview({ run }: Slipway, { name, preview }: Inputs): Promise<Outcome> {
  const { lines, failure } = await run('previews', 'delete', '--yes', '--', name, preview)
  if (failure?.code === 'preview_not_found') return { outcome: 'absent', name }
  setOutputs({ 'preview-id': lines.findLast(({ type }) => type === 'preview')?.id ?? '' })
  return { outcome: failure?.code ?? 'removed', name, ...(failure && { failure }) }
}

/** Later steps of the job run `slipway` as this one does. */
function setUp({ folder, settings }: Slipway): Outcome {
  const bin = join(folder, 'bin')
  fs.mkdirSync(bin)
  fs.writeFileSync(join(bin, 'slipway'), `#!/bin/sh\nexec node '${CLI.replaceAll("'", "'\\''")}' "$@"\n`, {
    mode: 0o755,
  })
  addPath(bin)
  setVariables(settings)
  return { outcome: 'signed_in', name: '' }
}

async function act(inputs: Inputs): Promise<Outcome> {
  const slipway = createSlipway(inputs)
  try {
    const failure = await signIn(slipway, inputs)
    if (failure) return { outcome: failure.code, name: inputs.name, failure }
    if (inputs.mode === 'setup') return setUp(slipway)
    const acts = { preview, 'remove-preview': removePreview, deploy, plan: deploy }
    return await acts[inputs.mode](slipway, inputs)
  } finally {
    if (inputs.mode !== 'setup') {
      if (!env.SLIPWAY_API_KEY && fs.existsSync(join(slipway.folder, 'login.json'))) await slipway.run('logout')
      slipway.remove()
    }
  }
}

function report(done: Outcome): void {
  const { outcome, name, url, revision, plan, failure } = done
  const planText = plan ? JSON.stringify(plan) : ''
  setOutputs({
    outcome,
    deployment: name,
    url: url ?? '',
    revision: revision === undefined ? '' : String(revision),
    plan: planText.length > MAX_PLAN_LENGTH ? '' : planText,
  })
  addSummary(describe(done))
  if (!failure) return
  const details = [failure.message, ...(failure.last_lines ?? []), failure.next && `Next: ${failure.next}`]
  command('error', details.filter(Boolean).join('\n'))
  process.exitCode = 1
}

const readEvent = (): TriggerEvent =>
  env.GITHUB_EVENT_PATH ? (JSON.parse(fs.readFileSync(env.GITHUB_EVENT_PATH, 'utf8')) as TriggerEvent) : {}

const read = readInputs(env, readEvent())
if ('faults' in read)
  report({ outcome: 'usage', name: '', failure: { code: 'usage', message: read.faults.join('\n') } })
else if ('skip' in read) {
  command('notice', read.skip)
  report({ outcome: 'skipped', name: '' })
} else report(await act(read.inputs))
if (isCancelled) process.exitCode = 130
