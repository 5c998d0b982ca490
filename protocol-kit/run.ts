// `npm run protocol-kit -- <command>`: holds any agent against PROTOCOL.md. `--only WORD` plays the scenarios whose name has it.
import { startControlPlane } from './control-plane.ts'
import { createScenarioContext } from './scenario-context.ts'
import { scenarios } from './scenarios.ts'

const USAGE = `npm run protocol-kit -- [--only WORD] <command> [argument]...

Starts a control plane and drives the agent that the command starts through every scenario of PROTOCOL.md. The command finds
SLIPWAY_URL and SLIPWAY_LISTENER_KEY in its environment, and is started in a folder of its own, the same after a restart, which is
SLIPWAY_AGENT_HOME too. What it started has to end with it.`

export async function runKit(
  command: string[],
  { only = '', say = console.log, output = 'inherit' as 'inherit' | 'ignore' } = {},
): Promise<string[]> {
  const plane = await startControlPlane()
  const failed: string[] = []
  try {
    for (const { name, run: play } of scenarios.filter(one => one.name.includes(only))) {
      const stage = await createScenarioContext(plane, command, output)
      const began = performance.now()
      const fault = await play(stage).then(
        () => null,
        (error: Error) => error,
      )
      await stage.clear()
      say(
        `${fault ? 'not ok' : 'ok    '}  ${name}  ${((performance.now() - began) / 1000).toFixed(1)} s${fault ? `\n        ${fault.message}` : ''}`,
      )
      if (fault) failed.push(`${name}: ${fault.message}`)
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
