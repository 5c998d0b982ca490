// How a shell is told a command: so that the application takes its place where it can, and gets the signals that are meant for it. Pure.

/** One program and its arguments, nothing that a shell would have to do afterwards. */
const SIMPLE_COMMAND = /^[\w./@+-]+( +[\w./@:+,=-]+)*$/

/** The last of what follows each other by `&&` needs no shell to wait for it. */
export function shellCommand(command: string): string[] {
  const steps = command.split('&&').map(step => step.trim())
  const last = steps.at(-1)!
  if (SIMPLE_COMMAND.test(last) && !/^(exec|cd|export|exit|true|false|:)\b/.test(last))
    steps[steps.length - 1] = `exec ${last}`
  return ['/bin/sh', '-c', steps.join(' && ')]
}
