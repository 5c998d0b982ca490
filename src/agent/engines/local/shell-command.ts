// Wraps a start command for the shell so that the application replaces the shell and receives its signals. Pure.

/** One program and its arguments, without quoting, pipes or redirections. */
const SIMPLE_COMMAND = /^[\w./@+-]+( +[\w./@:+,=-]+)*$/

/** Puts `exec` before the last command of a chain of `&&`. */
export function shellCommand(command: string): string[] {
  const steps = command.split('&&').map(step => step.trim())
  const last = steps.at(-1)!
  if (SIMPLE_COMMAND.test(last) && !/^(exec|cd|export|exit|true|false|:)\b/.test(last))
    steps[steps.length - 1] = `exec ${last}`
  return ['/bin/sh', '-c', steps.join(' && ')]
}
