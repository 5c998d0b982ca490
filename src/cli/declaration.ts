// How a command is declared: its words and options, and the module that is loaded when it runs.
import type { Command } from 'commander'
import { pathOf } from './completion.ts'
import { usageError } from './failure.ts'
import { chooseInstallation, type GlobalOptions, openSession, type Session } from './session.ts'
import { type Login, SeveralInstallations } from './settings.ts'

type Run<Options> = (session: Session, options: Options, args: string[]) => Promise<unknown> | unknown
type RunNamed<Options> = (
  session: Session,
  options: Options,
  deployment: string | undefined,
  args: string[],
) => Promise<unknown> | unknown

export type Declare = ReturnType<typeof createDeclare>

export function createDeclare(program: Command, signal: AbortSignal) {
  const globals = () => program.opts<GlobalOptions>()
  /** A command that talks to the installation. */
  function command<Options>(parent: Command, usage: string, description: string, run: Run<Options>): Command {
    return parent
      .command(usage)
      .description(description)
      .action(async (...given) => {
        const command = given.at(-1) as Command
        const attempt = async (login?: Login) =>
          void (await run(openSession(globals(), signal, login), command.opts() as Options, command.args))
        await attempt().catch(async error => {
          if (!(error instanceof SeveralInstallations)) throw error
          await attempt(await chooseInstallation(error, globals(), signal))
        })
      })
  }
  /** A command about the deployment that is named first, or else about the one that the folder is linked to. */
  function commandOfDeployment<Options>(
    parent: Command,
    usage: string,
    description: string,
    run: RunNamed<Options>,
  ): Command {
    const [name, ...words] = usage.split(' ') as [string, ...string[]]
    // Commander takes no required argument after an optional one, so all are declared as optional.
    const optional = words.map(word => word.replace('<', '[').replace('>', ']'))
    const declared = [name, '[deployment]', ...optional].join(' ')
    const one = command<Options>(parent, declared, description, (session, options, args) => {
      const missing = words[args.length]
      if (missing !== undefined)
        throw usageError(
          `missing required argument '${missing.replace(/[<>.]/g, '')}'`,
          `slipway ${pathOf(one)} --help`,
        )
      const isNamed = args.length > words.length
      return run(session, options, isNamed ? args[0] : undefined, isNamed ? args.slice(1) : args)
    })
    return one.usage(['[options]', '[deployment]', ...words].join(' '))
  }
  return {
    program,
    globals,
    signal,
    /** A heading in the help, for the commands that are declared next. */
    section: (heading: string) => void program.commandsGroup(heading),
    group: (name: string, description: string) => program.command(name).description(description),
    command,
    commandOfDeployment,
  }
}

export const withFollow = (command: Command): Command =>
  command
    .option('--detach', 'do not follow the revision')
    .option('--timeout <seconds>', 'how long to follow the revision', '900')

/** What documents are planned with. */
export const withDocuments = (command: Command): Command =>
  command
    .option('-f, --file <path>', 'a file or a folder of documents, or - for stdin. Can be repeated', collect)
    .option('--owner <name>', 'the owner of all documents, such as shop/infra')
    .option('--prune', 'delete what has the owner and is in no document')
    .option('--take-over', 'also change what has another owner')
    .option('--secrets-file <file>', 'values of secrets: lines NAME=value or DEPLOYMENT/NAME=value', collect)

/** For an option that can be repeated. */
export const collect = (value: string, before: string[] = []): string[] => [...before, value]
