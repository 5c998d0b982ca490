// How a command is declared: its words and options, and the module that is loaded when it runs.
import type { Command } from 'commander'
import { type GlobalOptions, openSession, type Session } from './session.ts'

type Run<Options> = (session: Session, options: Options, args: string[]) => Promise<unknown> | unknown

export type Declare = ReturnType<typeof createDeclare>

export function createDeclare(program: Command, signal: AbortSignal) {
  const globals = () => program.opts<GlobalOptions>()
  return {
    program,
    globals,
    signal,
    /** A heading in the help, for the commands that are declared next. */
    section: (heading: string) => void program.commandsGroup(heading),
    group: (name: string, description: string) => program.command(name).description(description),
    /** A command that talks to the installation. */
    command<Options>(parent: Command, usage: string, description: string, run: Run<Options>): Command {
      return parent
        .command(usage)
        .description(description)
        .action(async (...given) => {
          const command = given.at(-1) as Command
          await run(openSession(globals(), signal), command.opts() as Options, command.args)
        })
    },
  }
}

export const withFollow = (command: Command): Command =>
  command
    .option('--detach', 'do not follow the revision')
    .option('--timeout <seconds>', 'how long to follow the revision', '900')

/** For an option that can be repeated. */
export const collect = (value: string, before: string[] = []): string[] => [...before, value]
