// Writes what arrives in parts to standard output, or to a file that is there only when it is complete.
import { once } from 'node:events'
import { closeSync, fsyncSync, openSync, realpathSync, renameSync, rmSync, statSync, writeSync } from 'node:fs'
import { usageError } from './failure.ts'

export async function writeToStdout(chunks: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
  for await (const chunk of chunks) if (!process.stdout.write(chunk)) await once(process.stdout, 'drain', { signal })
}

/** The file gets its name when it is complete, so a part never looks like the whole. */
export async function writeFile(
  file: string,
  chunks: AsyncIterable<Uint8Array>,
  onProgress: (bytes: number) => void,
): Promise<number> {
  const present = statSync(file, { throwIfNoEntry: false })
  if (present?.isDirectory()) throw usageError(`${file} is a folder. Give the name of a file.`)
  // A pipe or a device gets the bytes themselves, because a file in its place would replace it.
  const isStream = present !== undefined && !present.isFile()
  const target = present?.isFile() ? realpathSync(file) : file
  const temporary = `${target}.${process.pid}.part`
  const opened = isStream ? openSync(file, 'w') : openSync(temporary, 'wx', 0o600)
  let bytes = 0
  try {
    for await (const chunk of chunks) {
      for (let at = 0; at < chunk.length; ) at += writeSync(opened, chunk, at)
      bytes += chunk.length
      onProgress(bytes)
    }
    if (isStream) return bytes
    fsyncSync(opened)
    renameSync(temporary, target)
  } finally {
    closeSync(opened)
    if (!isStream) rmSync(temporary, { force: true })
  }
  return bytes
}
