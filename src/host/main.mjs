// The programs of an installation, such as `slipway start`. commands.json lists them, and each is loaded when it runs.
// A program runs when its module is loaded, or is the `main` that the module exports.
// It is JavaScript, as start-node.mjs is: the server needs no TypeScript to start.
import commands from './commands.json' with { type: 'json' }

const list = Object.entries(commands).map(([name, { about }]) => `  ${name.padEnd(16)}${about}`)
const USAGE = `slipway COMMAND [OPTIONS]

${list.join('\n')}

\`slipway COMMAND --help\` lists the options of a command. Settings are environment variables: see
docs/reference/settings.md.`

const [name = '--help'] = process.argv.splice(2, 1)
if (Object.hasOwn(commands, name)) {
  if (name !== 'start') await import('./require-node.cjs')
  const program = await import(commands[name].module)
  await program.main?.()
} else if (['--help', '-h', 'help'].includes(name)) console.log(USAGE)
else {
  console.error(`The command ${JSON.stringify(name)} does not exist.\n\n${USAGE}`)
  process.exitCode = 2
}
