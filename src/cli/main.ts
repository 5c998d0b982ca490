#!/usr/bin/env node
// The command line `slipway`. Each command is loaded when it runs.
import { Command, CommanderError } from 'commander'
import { CommandFailure, EXIT, toReport, usageError } from './failure.ts'
import { createOutput } from './output.ts'
import { type GlobalOptions, openSession, type Session } from './session.ts'

const interruption = new AbortController()
const { signal } = interruption
process.on('SIGINT', () => {
  // A second Ctrl-C ends the command at once.
  if (signal.aborted) process.exit(EXIT.interrupted)
  interruption.abort(new CommandFailure(EXIT.interrupted, 'interrupted', 'Interrupted.'))
})

const program = new Command('slipway')
  .description('Deploys folders and operates deployments. Pages about each task are in docs/.')
  .option('--json', 'print one JSON object a line, also on a terminal')
  .option('-y, --yes', 'apply without asking')
  .showHelpAfterError(false)
  .exitOverride()
const globals = () => program.opts<GlobalOptions>()

type Run<Options> = (session: Session, options: Options, args: string[]) => Promise<unknown> | unknown
/** A command that talks to the installation. */
function command<Options>(parent: Command, usage: string, description: string, run: Run<Options>): Command {
  return parent
    .command(usage)
    .description(description)
    .action(async (...given) => {
      const command = given.at(-1) as Command
      await run(openSession(globals(), signal), command.opts() as Options, command.args)
    })
}
const withFollow = (one: Command) =>
  one
    .option('--detach', 'do not follow the revision')
    .option('--timeout <seconds>', 'how long to follow the revision', '900')

type Deploy = import('./commands/deploy.ts').DeployOptions
const loadDeploy = () => import('./commands/deploy.ts')
const loadRead = () => import('./commands/read.ts')
const loadChange = () => import('./commands/change.ts')
const loadAccount = () => import('./commands/account.ts')

program
  .command('login')
  .description('store an API key for this machine, after a check')
  .option('--url <url>', 'the address of the installation')
  .option('--workspace <id>', 'the workspace to act in, for a key of the organization')
  .option('--key-stdin', 'read the key from standard input')
  .action(async options => (await loadAccount()).logIn({ ...globals(), ...options }, signal))
program
  .command('logout')
  .description('remove the stored API key from this machine')
  .action(async () => (await loadAccount()).logOut(globals()))
command(program, 'whoami', 'show the installation and organization of the key', async session =>
  (await loadRead()).showWhoami(session),
)
command(program, 'link <deployment>', 'link this folder to a deployment', async (session, _, [name]) =>
  (await loadAccount()).linkFolder(session, name!),
)
program
  .command('unlink')
  .description('unlink this folder')
  .action(async () => (await loadAccount()).unlinkFolder(globals()))

withFollow(
  command<Deploy>(
    program,
    'deploy [folder]',
    'deploy a folder, and follow it to its URL',
    async (session, options, [folder]) => (await loadDeploy()).deployFolder(session, folder ?? '.', options),
  ),
)
  .option('--name <name>', 'the deployment. Default: the linked one, or the name in package.json or of the folder')
  .option('--create', 'create the deployment if there is none, without a terminal too')
  .option('--dry-run', 'list the files and their size, and send nothing')
command<Deploy>(program, 'plan [folder]', 'show what a deploy would change', async (session, options, [folder]) =>
  (await loadDeploy()).planFolder(session, folder ?? '.', options),
)
  .option('--name <name>', 'the deployment')
  .option('--exit-code', 'exit with 10 if there are changes')

command<{ status?: string }>(program, 'list', 'list deployments', async (session, options) =>
  (await loadRead()).listDeployments(session, options),
).option('--status <status>', 'only those with this status')
command(program, 'status [deployment]', 'show what serves and what is on its way', async (session, _, [name]) =>
  (await loadRead()).showStatus(session, name),
)
command(program, 'explain [deployment]', 'say why the latest revision does not serve', async (session, _, [name]) =>
  (await loadRead()).explain(session, name),
)
command(program, 'open [deployment]', 'print the URL, and open it in a browser', async (session, _, [name]) =>
  (await loadRead()).openUrl(session, name),
)
command<{ limit: string }>(program, 'revisions [deployment]', 'list revisions', async (session, { limit }, [name]) =>
  (await loadRead()).listRevisions(session, name, limit),
).option('--limit <number>', 'how many', '20')
command<import('./commands/logs.ts').LogOptions>(
  program,
  'logs [deployment]',
  'show log lines',
  async (session, options, [name]) => (await import('./commands/logs.ts')).showLogs(session, name, options),
)
  .option('-f, --follow', 'go on with lines as they arrive')
  .option('--build', 'only lines of builds')
  .option('--revision <revision>', 'only lines of this revision, by number or id')
  .option('--level <level>', 'only lines of this level or above')
  .option('--query <text>', 'only lines with this text')
  .option('--tail <lines>', 'how many of the newest lines to begin with', '100')

command<import('./commands/events.ts').EventOptions>(
  program,
  'events',
  'show what happened in the workspace',
  async (session, options) => (await import('./commands/events.ts')).showEvents(session, options),
)
  .option('-f, --follow', 'go on with events as they happen')
  .option('--type <types>', 'only these types, such as deployment.*, separated by commas')
  .option('--limit <number>', 'how many of the newest events to begin with', '20')
const previews = program.command('previews').description('the previews of pull requests')
command(previews, 'list [deployment]', 'list them', async (session, _, [name]) =>
  (await import('./commands/previews.ts')).listPreviews(session, name),
)
command(previews, 'approve <deployment> <number>', 'approve the commit of a fork', async (session, _, [name, number]) =>
  (await import('./commands/previews.ts')).approvePreview(session, name!, number!),
)

type Follow = import('./commands/change.ts').ChangeFlags
withFollow(
  command<Follow & { releaseOnNewerCommit?: boolean }>(
    program,
    'rollback <deployment> <revision>',
    'roll back to a revision, by number or id',
    async (session, options, [name, revision]) => (await loadChange()).rollBack(session, name!, revision!, options),
  ).option('--release-on-newer-commit', 'let a newer commit end the hold'),
)
command(program, 'interrupt <deployment> [revision]', 'interrupt a revision', async (session, _, [name, revision]) =>
  (await loadChange()).interrupt(session, name!, revision),
)
command(program, 'release <deployment>', 'release the hold of a rollback', async (session, _, [name]) =>
  (await loadChange()).releaseHold(session, name!),
)
const env = program.command('env').description('the variables of a deployment')
command(env, 'list [deployment]', 'list their names', async (session, _, [name]) =>
  (await loadChange()).listVariables(session, name),
)
withFollow(
  command<Follow>(
    env,
    'set <deployment> <name>',
    'set one, read from stdin or a hidden prompt',
    async (session, options, [name, variable]) => (await loadChange()).setVariable(session, name!, variable!, options),
  ),
)
withFollow(
  command<Follow>(env, 'unset <deployment> <names...>', 'remove some', async (session, options, [name, ...variables]) =>
    (await loadChange()).unsetVariables(session, name!, variables, options),
  ),
)
withFollow(
  command<Follow>(
    env,
    'import <deployment> <file>',
    'add or replace those of a .env file, or - for stdin',
    async (session, options, [name, file]) => (await loadChange()).importVariables(session, name!, file!, options),
  ),
)
command<{ input?: string }>(
  program,
  'api <method> <path>',
  'send any request of the API',
  async (session, options, [method, path]) =>
    (await import('./commands/api.ts')).sendRequest(session, method!, path!, options),
).option('--input <file>', 'the JSON body, or - for stdin')

/** Usage errors are reported as others are. */
let complaint = ''
const collectComplaints = (one: Command) => {
  one.exitOverride().configureOutput({ writeErr: text => (complaint += text) })
  one.commands.forEach(collectComplaints)
}
collectComplaints(program)

try {
  await program.parseAsync()
} catch (caught) {
  const isHelp = caught instanceof CommanderError && caught.exitCode === 0
  if (!isHelp) {
    const error = caught instanceof CommanderError ? toUsageError(caught) : signal.aborted ? asFailure(caught) : caught
    const { report, exitCode } = toReport(error)
    createOutput({ json: globals().json === true }).fail(report)
    process.exitCode = exitCode
  }
}

function toUsageError({ code, message }: CommanderError): CommandFailure {
  if (code === 'commander.help') return usageError('Name a command.', 'slipway --help')
  const lines = (complaint || message).split('\n').map(line => line.trim())
  return usageError(
    lines
      .filter(Boolean)
      .join(' ')
      .replace(/^error: /, ''),
    'slipway --help',
  )
}

function asFailure(caught: unknown): unknown {
  return caught instanceof CommandFailure ? caught : signal.reason
}
