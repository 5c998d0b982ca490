#!/usr/bin/env node
// The command line `slipway`: runs one command, and reports a failure with its exit code.
import { type Command, CommanderError } from 'commander'
import { CommandFailure, EXIT, toReport, usageError } from './failure.ts'
import { createOutput } from './output.ts'
import { createProgram, declareNamed, pathOf } from './program.ts'

const interruption = new AbortController()
const { signal } = interruption
process.on('SIGINT', () => {
  // A second Ctrl-C ends the command at once.
  if (signal.aborted) process.exit(EXIT.interrupted)
  interruption.abort(new CommandFailure(EXIT.interrupted, 'interrupted', 'Interrupted.'))
})

const program = createProgram(signal)
await declareNamed(program, process.argv.slice(2))

/** Commander's messages about wrong usage, which are reported like other failures. */
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
    createOutput({ json: program.opts().json === true }).fail(report)
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
