// Stores objects as files in a folder. A file gets its name only when it is complete.
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Storage } from '../platform.ts'
import { toWebStream } from './web-stream.ts'

/** Left behind when a process is killed during a write. Removing the object removes it too. */
const UNFINISHED = '.part'

export function createFolderStorage(folder: string): Storage {
  const root = resolve(folder)
  return {
    async put(path, body) {
      const file = join(root, path)
      const temporary = file + UNFINISHED
      await mkdir(dirname(file), { recursive: true, mode: 0o700 })
      try {
        const source = body instanceof Uint8Array ? [body] : Readable.fromWeb(body as never)
        await pipeline(source, createWriteStream(temporary, { mode: 0o600, flush: true }))
        await rename(temporary, file)
      } catch (error) {
        await rm(temporary, { force: true })
        throw error
      }
    },
    async get(path) {
      const file = await open(join(root, path)).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null
        throw error
      })
      return file && toWebStream(createReadStream('', { fd: file }))
    },
    async remove(paths) {
      for (const path of paths.flatMap(path => [path, path + UNFINISHED])) await rm(join(root, path), { force: true })
    },
  }
}
