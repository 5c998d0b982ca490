// `npm run protocol-kit -- <command>`: checks any agent against PROTOCOL.md. `--only WORD` runs the scenarios whose
// name contains the word.
import { formatCounts } from '../support/counts.ts'
import { type ControlPlane, startControlPlane, startDatabase } from './control-plane.ts'
import { createScenarioContext } from './scenario-context.ts'
import { type Scenario, scenarios } from './scenarios.ts'

const USAGE = `npm run protocol-kit -- [--only WORD] [--parallel COUNT] <command> [argument]...

Starts a control plane, starts the agent with the command, and runs every scenario of PROTOCOL.md. --only WORD runs
those whose name contains the word.

The environment of the command has SLIPWAY_URL, SLIPWAY_LISTENER_KEY and SLIPWAY_AGENT_HOME. The last is its working
folder, which it finds again after a restart. What the command starts has to end with it. An agent with the feature
git_ssh has to be allowed to read repositories from 127.0.0.1. --parallel runs that many scenarios at the same time,
each with an agent and a control plane that no other uses at that time.`

type KitOptions = {
  only?: string
  print?: (line: string) => void
  output?: 'inherit' | 'ignore'
  /** The number of scenarios that run at the same time. */
  parallel?: number
  /** The address of a Postgres with all migrations. Without it, the kit starts one. */
  databaseUrl?: string
}

export async function runKit(
  command: string[],
  { only = '', print = console.log, output = 'inherit', parallel = 1, databaseUrl }: KitOptions = {},
): Promise<string[]> {
  const database = databaseUrl ? { url: databaseUrl, stop: () => {} } : await startDatabase()
  const failed: string[] = []
  async function runScenario({ name, run }: Scenario, plane: ControlPlane) {
    const context = await createScenarioContext(plane, command, output)
    const start = performance.now()
    const error = await run(context).then(
      () => null,
      (cause: Error) => cause,
    )
    await context.cleanUp()
    const seconds = ((performance.now() - start) / 1000).toFixed(1)
    print(`${error ? 'not ok' : 'ok    '}  ${name}  ${seconds} s${error ? `\n        ${error.message}` : ''}`)
    if (error) failed.push(`${name}: ${error.message}`)
  }
  const waiting = scenarios.filter(one => one.name.includes(only))
  // A scenario moves the clock of its control plane, so two at the same time cannot share one.
  const runWaiting = async () => {
    const plane = await startControlPlane(database.url)
    try {
      for (let next = waiting.shift(); next; next = waiting.shift()) await runScenario(next, plane)
    } finally {
      await plane.stop()
    }
  }
  try {
    await Promise.all(Array.from({ length: Math.min(parallel, waiting.length) }, runWaiting))
  } finally {
    await database.stop()
  }
  return failed
}

if (process.argv[1] === import.meta.filename) {
  const command = process.argv.slice(2)
  const options: KitOptions = {}
  while (command[0] === '--only' || command[0] === '--parallel') {
    const [name, value = ''] = command.splice(0, 2)
    if (name === '--only') options.only = value
    else options.parallel = Number(value)
  }
  const isValid = command.length > 0 && !command[0]!.startsWith('-') && (options.parallel ?? 1) >= 1
  if (!isValid) console.log(USAGE)
  else {
    const { length: failed } = await runKit(command, options)
    const { length: all } = scenarios.filter(({ name }) => name.includes(options.only ?? ''))
    console.log(formatCounts({ passed: all - failed, failed, skipped: 0 }))
    if (failed > 0) process.exitCode = 1
  }
}
