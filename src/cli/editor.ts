// Opens a text in the editor of the person, in a file that only they can read and that never stays.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CommandFailure, EXIT } from './failure.ts'

/** Signals that end a process without its exit handlers. */
const ENDING_SIGNALS = { SIGTERM: 143, SIGHUP: 129 } as const

export async function editText(name: string, text: string, signal: AbortSignal): Promise<string> {
  const { VISUAL, EDITOR } = process.env
  const editor = VISUAL || EDITOR || (process.platform === 'win32' ? 'notepad' : 'vi')
  const folder = mkdtempSync(join(tmpdir(), 'slipway-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  process.on('exit', remove)
  const handlers = Object.entries(ENDING_SIGNALS).map(([one, code]) => [one, () => process.exit(code)] as const)
  for (const [one, end] of handlers) process.on(one, end)
  // Ctrl-C belongs to the editor, such as in `vi`, but a terminal sends it to this process too.
  const interrupts = process.listeners('SIGINT')
  const ignore = () => {}
  process.removeAllListeners('SIGINT').on('SIGINT', ignore)
  try {
    const file = join(folder, name)
    writeFileSync(file, text, { mode: 0o600 })
    await runEditor(editor, file, signal)
    return readFileSync(file, 'utf8')
  } finally {
    process.off('SIGINT', ignore)
    for (const one of interrupts) process.on('SIGINT', one)
    for (const [one, end] of handlers) process.off(one, end)
    process.off('exit', remove)
    remove()
  }
}

/** The shell splits the words of `code --wait`. */
async function runEditor(editor: string, file: string, interrupted: AbortSignal): Promise<void> {
  const { platform, stdout } = process
  const stdio = ['inherit', stdout.isTTY ? 'inherit' : 2, 'inherit'] as ['inherit', 'inherit', 'inherit']
  const child =
    platform === 'win32'
      ? spawn(`${editor} "${file}"`, { stdio, shell: true })
      : spawn('/bin/sh', ['-c', `${editor} "$1"`, 'sh', file], { stdio })
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null]
  interrupted.throwIfAborted()
  if (code === 0) return
  const message = `The editor ended with ${signal ?? `exit code ${code}`}: ${editor}. Nothing was changed.`
  throw new CommandFailure(EXIT.failed, 'editor_failed', message, 'Set EDITOR to the editor of your choice.')
}
