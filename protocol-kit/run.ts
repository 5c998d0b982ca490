// `npm run protocol-kit -- <command>`: holds any agent against PROTOCOL.md. `--only WORD` plays the scenarios whose name has it.
import { startControlPlane, startDatabase } from './control-plane.ts'
import { createScenarioContext } from './scenario-context.ts'
import { type Scenario, scenarios } from './scenarios.ts'

const USAGE = `npm run protocol-kit -- [--only WORD] [--parallel COUNT] <command> [argument]...

Starts a control plane and drives the agent that the command starts through every scenario of PROTOCOL.md. The command finds
SLIPWAY_URL and SLIPWAY_LISTENER_KEY in its environment, and is started in a folder of its own, the same after a restart, which is
SLIPWAY_AGENT_HOME too. What it started has to end with it. --parallel runs that many scenarios at the same time, each with a
control plane and an agent of its own.`

type KitOptions = {
  only?: string
  say?: (line: string) => void
  output?: 'inherit' | 'ignore'
  /** How many scenarios run at the same time. */
  parallel?: number
  createDataDir?: Parameters<typeof startDatabase>[0]
}

export async function runKit(
  command: string[],
  { only = '', say = console.log, output = 'inherit', parallel = 1, createDataDir }: KitOptions = {},
): Promise<string[]> {
  const database = await startDatabase(createDataDir)
  const failed: string[] = []
  async function runScenario({ name, run }: Scenario) {
    const plane = await startControlPlane(database.url)
    try {
      const stage = await createScenarioContext(plane, command, output)
      const began = performance.now()
      const fault = await run(stage).then(
        () => null,
        (error: Error) => error,
      )
      await stage.clear()
      const seconds = ((performance.now() - began) / 1000).toFixed(1)
      say(`${fault ? 'not ok' : 'ok    '}  ${name}  ${seconds} s${fault ? `\n        ${fault.message}` : ''}`)
      if (fault) failed.push(`${name}: ${fault.message}`)
    } finally {
      await plane.stop()
    }
  }
  const waiting = scenarios.filter(one => one.name.includes(only))
  const runWaiting = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) await runScenario(next)
  }
  try {
    await Promise.all(Array.from({ length: parallel }, runWaiting))
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
  else if ((await runKit(command, options)).length > 0) process.exitCode = 1
}
