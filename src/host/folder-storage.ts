// Objects in a folder, written as they arrive and renamed into their place when they are whole.
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Storage } from '../env.ts'

/** What a process that was killed left of it goes with it. */
const UNFINISHED = '.part'

export function createFolderStorage(folder: string): Storage {
  const root = resolve(folder)
  return {
    async put(path, body) {
      const place = join(root, path)
      const work = place + UNFINISHED
      await mkdir(dirname(place), { recursive: true, mode: 0o700 })
      try {
        await pipeline(Readable.fromWeb(body as never), createWriteStream(work, { mode: 0o600, flush: true }))
        await rename(work, place)
      } catch (error) {
        await rm(work, { force: true })
        throw error
      }
    },
    async get(path) {
      const file = await open(join(root, path)).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null
        throw error
      })
      return file && (Readable.toWeb(createReadStream('', { fd: file })) as ReadableStream<Uint8Array>)
    },
    async remove(paths) {
      for (const path of paths.flatMap(path => [path, path + UNFINISHED])) await rm(join(root, path), { force: true })
    },
  }
}
