// Reads secrets: from standard input, or from a terminal without showing them.
import { readFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { CommandFailure, EXIT, usageError } from './failure.ts'

export const readStdin = (): Promise<string> => text(process.stdin)

export type SecretSource = { ask?: boolean | undefined; file?: string | undefined; isInteractive: boolean }

/** Reads a file, standard input for `-`, or a hidden prompt for `ask`. Arguments stay in the history of a shell. */
export async function readSecret(
  name: string,
  { ask, file, isInteractive }: SecretSource,
): Promise<string | undefined> {
  if (file === undefined && !ask) return undefined
  if (file === undefined && isInteractive) return readHidden(`${name}: `)
  const content = file === undefined || file === '-' ? await readStdin() : readFileSync(file, 'utf8')
  const secret = content.replace(/\r?\n$/, '')
  if (secret === '') throw usageError(`${name} is empty.`)
  return secret
}

export async function readHidden(question: string): Promise<string> {
  const { stdin, stderr } = process
  // Before the question, because the terminal shows what is typed until then.
  stdin.setRawMode(true)
  stdin.setEncoding('utf8')
  stderr.write(question)
  try {
    let typed = ''
    for await (const chunk of stdin.iterator({ destroyOnReturn: false })) {
      for (const character of String(chunk)) {
        // In raw mode Ctrl-C is a character.
        if (character === '\x03') throw new CommandFailure(EXIT.interrupted, 'interrupted', 'Interrupted.')
        if (character === '\r' || character === '\n' || character === '\x04') return typed
        if (character === '\x7f' || character === '\b') typed = typed.slice(0, -1)
        else if (character >= ' ') typed += character
      }
    }
    return typed
  } finally {
    stdin.setRawMode(false)
    stdin.pause()
    stderr.write('\n')
  }
}
