// Wraps a start command for the shell so that the application replaces the shell and receives its signals. Pure.

/** One program and its arguments, without pipes or redirections. */
const SIMPLE_COMMAND = /^[\w./@+-]+( +([\w./@:+,=%${}-]|'[^']*'|"[^"\\]*")+)*$/
/** They are no programs. */
const OF_THE_SHELL =
  /^(\.|alias|cd|command|eval|exec|exit|export|false|read|set|shift|source|trap|true|ulimit|umask|unset|wait)( |$)/
/** A quoted text, the end of a step, or one character. */
const TOKEN = /'[^']*'|"(?:[^"\\]|\\.)*"|\\.|&&|./gs
/** Such a command may have other commands in its texts. */
const HAS_SUBSTITUTION = /[`(]/

/** Puts `exec` before the last command of a chain of `&&`. The shell of Debian does not do that by itself. */
export function withExec(command: string): string {
  if (HAS_SUBSTITUTION.test(command)) return command
  const tokens: string[] = command.match(TOKEN) ?? []
  const end = tokens.lastIndexOf('&&')
  const [before, last] = [tokens.slice(0, end + 1), tokens.slice(end + 1)].map(part => part.join('').trim())
  if (!SIMPLE_COMMAND.test(last!) || OF_THE_SHELL.test(last!)) return command
  return before ? `${before} exec ${last}` : `exec ${last}`
}

export const shellCommand = (command: string): string[] => ['/bin/sh', '-c', withExec(command)]
