// The commands as Commander parses them. Each is added by its name alone, and declared when the words name it.
import { Command } from 'commander'
import { type Load, SECTIONS } from './commands.ts'
import { usageError } from './failure.ts'
import { chooseInstallation, type GlobalOptions, openSession } from './session.ts'
import { type Login, SeveralInstallations } from './settings.ts'
import { VERSION } from './version.ts'

/** The declarations that are not imported yet. */
const undeclared = new WeakMap<Command, () => Promise<void>>()

export function createProgram(signal: AbortSignal): Command {
  const program = new Command('slipway')
    .description('Deploys folders and operates deployments. Pages about each task are in docs/.')
    .version(VERSION, '--version')
    .option('--json', 'print one JSON object a line, also on a terminal')
    .option('-y, --yes', 'apply without asking')
    .addHelpText(
      'after',
      '\nExit codes: 0 done, 1 failed, 2 wrong command, 3 timed out, 4 not signed in, 5 plan is stale, 130 Ctrl-C.',
    )
    .showHelpAfterError(false)
    .exitOverride()
  const add = (parent: Command, name: string, load: Load, isDefault = false) => {
    const command = parent.command(name, { hidden: name.startsWith('__'), isDefault })
    undeclared.set(command, () => declare(command, load, () => program.opts<GlobalOptions>(), signal))
  }
  for (const [heading, entries] of Object.entries(SECTIONS)) {
    program.commandsGroup(heading)
    for (const [name, entry] of Object.entries(entries)) {
      if (typeof entry === 'function') {
        add(program, name, entry)
        continue
      }
      const group = program.command(name).description(entry.summary)
      for (const [name, load] of Object.entries(entry.commands)) add(group, name, load, name === entry.default)
    }
  }
  return program
}

/** Declares the command that the words name. If they name a group or none, its help shows all of its commands. */
export async function declareNamed(program: Command, words: string[]): Promise<void> {
  const names = words.filter(word => !word.startsWith('-'))
  const help = names.indexOf('help')
  // Commander's `help` takes one word, and ignores the others.
  const path = help < 0 ? names : [...names.slice(0, help), ...names.slice(help + 1, help + 2)]
  let command = program
  for (const word of path) {
    const next = command.commands.find(one => one.name() === word)
    if (!next) break
    command = next
  }
  await declareAll(command)
}

/** Declares the command, or the commands of a group. */
export async function declareAll(command: Command): Promise<void> {
  const declareOne = undeclared.get(command)
  undeclared.delete(command)
  await Promise.all([declareOne?.(), ...command.commands.map(declareAll)])
}

async function declare(command: Command, load: Load, globals: () => GlobalOptions, signal: AbortSignal): Promise<void> {
  const { declaration, run } = await load()
  const { arguments: usage, summary, description, options, namesInstallation } = declaration
  command.description(description ?? summary)
  if (description !== undefined) command.summary(summary)
  // Commander takes no required argument after an optional one, so all are declared as optional.
  const canOmitFirst = usage?.startsWith('[deployment] <') === true
  if (usage) command.arguments(canOmitFirst ? usage.replaceAll('<', '[').replaceAll('>', ']') : usage)
  if (canOmitFirst) command.usage(`[options] ${usage}`)
  options?.(command)
  command.action(async () => {
    const attempt = async (login?: Login) => {
      const session = openSession(globals(), signal, login)
      const args = canOmitFirst
        ? addOmitted(
            command,
            usage!.split(' ').filter(one => one.startsWith('<')),
          )
        : command.args
      await run(session, command.opts() as never, args as never)
    }
    await attempt().catch(async error => {
      if (namesInstallation || !(error instanceof SeveralInstallations)) throw error
      await attempt(await chooseInstallation(error, globals(), signal))
    })
  })
}

/** Puts undefined before the arguments if there are only the required ones. */
function addOmitted(command: Command, required: string[]): (string | undefined)[] {
  const { args } = command
  const missing = required[args.length]
  if (missing !== undefined)
    throw usageError(
      `missing required argument '${missing.replace(/[<>.]/g, '')}'`,
      `slipway ${pathOf(command)} --help`,
    )
  return args.length > required.length ? args : [undefined, ...args]
}

/** The words of a command after `slipway`. */
export const pathOf = (command: Command): string =>
  command.parent ? `${pathOf(command.parent)} ${command.name()}`.trim() : ''
