#!/usr/bin/env node
// The command line `slipway`. Each command is loaded when it runs.
import { Command, CommanderError } from 'commander'
import { pathOf } from './completion.ts'
import { createDeclare } from './declaration.ts'
import { declareCommands } from './declarations/all.ts'
import { CommandFailure, EXIT, toReport, usageError } from './failure.ts'
import { createOutput } from './output.ts'
import { VERSION } from './version.ts'

const interruption = new AbortController()
const { signal } = interruption
process.on('SIGINT', () => {
  // A second Ctrl-C ends the command at once.
  if (signal.aborted) process.exit(EXIT.interrupted)
  interruption.abort(new CommandFailure(EXIT.interrupted, 'interrupted', 'Interrupted.'))
})

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
const declare = createDeclare(program, signal)
declareCommands(declare)

/** Usage errors are reported as others are. */
let complaint = ''
let misused = program
const collectComplaints = (one: Command) => {
  one.exitOverride().configureOutput({
    writeErr: text => {
      complaint += text
      misused = one
    },
  })
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
    createOutput({ json: declare.globals().json === true }).fail(report)
    process.exitCode = exitCode
  }
}

function toUsageError({ code, message }: CommanderError): CommandFailure {
  const path = `slipway ${pathOf(misused)}`.trim()
  if (code === 'commander.help') return usageError('Name a command.', `${path} --help`)
  const lines = (complaint || message).split('\n').map(line => line.trim())
  const sentence = lines.filter(Boolean).join(' ')
  const [, suggested] = /Did you mean ([a-z-]+)\?/.exec(sentence) ?? []
  const isCommand = suggested !== undefined && !suggested.startsWith('-')
  return usageError(sentence.replace(/^error: /, ''), isCommand ? `${path} ${suggested}` : `${path} --help`)
}

function asFailure(caught: unknown): unknown {
  return caught instanceof CommandFailure ? caught : signal.reason
}
