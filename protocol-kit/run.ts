// `npm run protocol-kit -- <command>`: checks any agent against PROTOCOL.md. `--only WORD` runs the scenarios whose
// name contains the word.
import { startControlPlane } from './control-plane.ts'
import { createScenarioContext } from './scenario-context.ts'
import { scenarios } from './scenarios.ts'

const USAGE = `npm run protocol-kit -- [--only WORD] <command> [argument]...

Starts a control plane, starts the agent with the command, and runs every scenario of PROTOCOL.md. --only WORD runs
those whose name contains the word.

The environment of the command has SLIPWAY_URL, SLIPWAY_LISTENER_KEY and SLIPWAY_AGENT_HOME. The last is its working
folder, which it finds again after a restart. What the command starts has to end with it.`

export async function runKit(
  command: string[],
  { only = '', print = console.log, output = 'inherit' as 'inherit' | 'ignore' } = {},
): Promise<string[]> {
  const plane = await startControlPlane()
  const failed: string[] = []
  try {
    for (const { name, run } of scenarios.filter(one => one.name.includes(only))) {
      const context = await createScenarioContext(plane, command, output)
      const start = performance.now()
      const error = await run(context).then(
        () => null,
        (cause: Error) => cause,
      )
      await context.cleanUp()
      const seconds = ((performance.now() - start) / 1000).toFixed(1)
      print(`${error ? 'failed' : 'passed'}  ${name}  ${seconds} s${error ? `\n        ${error.message}` : ''}`)
      if (error) failed.push(`${name}: ${error.message}`)
    }
  } finally {
    await plane.stop()
  }
  return failed
}

if (process.argv[1] === import.meta.filename) {
  const command = process.argv.slice(2)
  const [, only] = command[0] === '--only' ? command.splice(0, 2) : []
  if (command.length === 0 || command[0]!.startsWith('-')) console.log(USAGE)
  else if ((await runKit(command, only ? { only } : {})).length > 0) process.exitCode = 1
}
