// Runs a composite action as the runner of GitHub Actions does: its expressions, the commands in its output, and the
// files that a step appends to.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { load } from 'js-yaml'

type Step = { id?: string; if?: string; shell?: string; run?: string; uses?: string; env?: Record<string, string> }
export type Action = {
  inputs: Record<string, { required?: boolean; default?: string; description: string }>
  outputs: Record<string, { value: string; description: string }>
  runs: { using: string; steps: Step[] }
}
type Job = {
  inputs: Record<string, string>
  /** The variables of the job. */
  env?: Record<string, string>
  eventName?: string
  event?: object
  workspace: string
  temp: string
  signal?: AbortSignal
}
export type JobResult = {
  code: number
  outputs: Record<string, string>
  /** Masked values appear as `***`. */
  log: string
  /** The commands that the runner took from the output. */
  commands: { name: string; message: string }[]
  summary: string
  /** The variables that later steps of the job get. */
  env: Record<string, string>
  paths: string[]
}

export const readAction = (folder: string): Action =>
  load(fs.readFileSync(join(folder, 'action.yml'), 'utf8')) as Action

export async function runAction(folder: string, job: Job): Promise<JobResult> {
  const action = readAction(folder)
  const inputs = readInputs(action, job.inputs)
  const steps: Record<string, { outputs: Record<string, string> }> = {}
  const contexts = { inputs, steps, github: { action_path: folder, event_name: job.eventName ?? 'push' } }
  const result: JobResult = { code: 0, outputs: {}, log: '', commands: [], summary: '', env: {}, paths: [] }
  for (const step of action.runs.steps) {
    if (result.code !== 0) break
    if (step.shell !== 'bash' || step.run === undefined || step.if !== undefined)
      throw new Error('The stand-in runs steps of bash without conditions.')
    const outputs = await runStep(folder, job, step, contexts, result)
    if (step.id) steps[step.id] = { outputs }
  }
  // They are set also when a step has failed.
  for (const [name, { value }] of Object.entries(action.outputs)) result.outputs[name] = evaluate(value, contexts)
  return result
}

function readInputs({ inputs }: Action, given: Record<string, string>): Record<string, string> {
  const unknown = Object.keys(given).filter(name => !(name in inputs))
  if (unknown.length > 0) throw new Error(`The action has no input ${unknown}.`)
  return Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, given[name] ?? input.default ?? '']))
}

/** Evaluates `${{ context.name.name }}`. A missing name is empty, as on GitHub. */
function evaluate(text: string, contexts: object): string {
  return text.replace(/\$\{\{\s*([\w.-]+)\s*\}\}/g, (_, path: string) => {
    const value = path
      .split('.')
      .reduce<unknown>((at, name) => (at as Record<string, unknown> | undefined)?.[name], contexts)
    return value === undefined ? '' : String(value)
  })
}

async function runStep(
  folder: string,
  { env = {}, event = {}, eventName = 'push', workspace, temp, signal }: Job,
  step: Step,
  contexts: object,
  result: JobResult,
): Promise<Record<string, string>> {
  const files = Object.fromEntries(
    ['GITHUB_OUTPUT', 'GITHUB_ENV', 'GITHUB_PATH', 'GITHUB_STEP_SUMMARY'].map(name => [name, join(temp, name)]),
  )
  for (const file of Object.values(files)) fs.writeFileSync(file, '')
  const [script, eventPath] = [join(temp, 'step.sh'), join(temp, 'event.json')]
  fs.writeFileSync(script, evaluate(step.run!, contexts))
  fs.writeFileSync(eventPath, JSON.stringify(event))
  const stepEnv = Object.entries(step.env ?? {}).map(([name, value]) => [name, evaluate(value, contexts)])
  const { PATH = '', HOME = '' } = process.env
  const child = spawn('bash', ['--noprofile', '--norc', '-e', '-o', 'pipefail', script], {
    cwd: workspace,
    env: {
      PATH,
      HOME,
      CI: 'true',
      GITHUB_ACTIONS: 'true',
      RUNNER_TEMP: temp,
      GITHUB_WORKSPACE: workspace,
      GITHUB_EVENT_NAME: eventName,
      GITHUB_EVENT_PATH: eventPath,
      GITHUB_REPOSITORY: 'acme/shop',
      GITHUB_ACTION_PATH: folder,
      ...files,
      ...env,
      ...Object.fromEntries(stepEnv),
    },
  })
  signal?.addEventListener('abort', () => child.kill('SIGINT'))
  child.stdin.end()
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  const [code] = (await once(child, 'close')) as [number | null]
  result.code = code ?? 1
  readOutput(output, result)
  const read = (name: string) => fs.readFileSync(files[name]!, 'utf8')
  Object.assign(result.env, readPairs(read('GITHUB_ENV')))
  result.paths.push(...read('GITHUB_PATH').split('\n').filter(Boolean))
  result.summary += read('GITHUB_STEP_SUMMARY')
  return readPairs(read('GITHUB_OUTPUT'))
}

/** Commands may be indented, and those of the first version stand anywhere in a line. */
function readOutput(output: string, result: JobResult): void {
  const masked: string[] = []
  let stopToken: string | undefined
  for (const line of output.split('\n')) {
    const [, name, message = ''] =
      /^\s*::([\w-]+)(?: [^:]*)?::(.*)$/.exec(line) ?? /##\[([\w-]+)[^\]]*\](.*)$/.exec(line) ?? []
    if (stopToken !== undefined) {
      if (name === stopToken) stopToken = undefined
      else result.log += `${hide(line, masked)}\n`
    } else if (name === undefined) result.log += `${hide(line, masked)}\n`
    else if (name === 'add-mask') masked.push(message)
    else if (name === 'stop-commands') stopToken = message
    else result.commands.push({ name, message: hide(message, masked) })
  }
}

const hide = (text: string, masked: string[]): string =>
  masked.reduce((shown, secret) => shown.replaceAll(secret, '***'), text)

/** Reads `name=value`, or `name<<DELIMITER` and lines. */
function readPairs(text: string): Record<string, string> {
  const pairs: Record<string, string> = {}
  const lines = text.split('\n')
  while (lines.length > 0) {
    const line = lines.shift()!
    const [, name, delimiter] = /^([\w-]+)<<(.+)$/.exec(line) ?? []
    if (name && delimiter) {
      const end = lines.indexOf(delimiter)
      if (end < 0) throw new Error(`The value of ${name} has no end.`)
      pairs[name] = lines
        .splice(0, end + 1)
        .slice(0, -1)
        .join('\n')
    } else if (line.includes('=')) pairs[line.slice(0, line.indexOf('='))] = line.slice(line.indexOf('=') + 1)
    else if (line !== '') throw new Error(`The runner refuses the line ${line}.`)
  }
  return pairs
}
