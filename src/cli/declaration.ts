// The exports of a command's file: what its help shows, and what it does.
import type { Command } from 'commander'
import type { Session } from './session.ts'

export type Declaration = {
  /** `<required>`, `[optional]` or `<several...>`, as the help shows them. */
  arguments?: string
  summary: string
  /** For the help of the command itself, if it says more than the summary. */
  description?: string
  options?: (command: Command) => Command
  /** The arguments name the installation, so the person is not asked which one of several is meant. */
  namesInstallation?: true
}

/** The file of a command is imported for its help, too, so `run` imports large packages itself. */
export type CommandModule = {
  declaration: Declaration
  run: (session: Session, options: never, args: never) => unknown
}
