// Writes what a database sends into a compressed file. The stream may be endless, slow or silent, by a fault or on
// purpose.
import * as fs from 'node:fs'
import { dirname } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { PermanentError } from '../engine.ts'
import { freeBytesOf } from '../system/files.ts'

/** A backup begins with a checkpoint. */
const STALL_MS = 300_000
/** After that time: a backup that takes longer than its data need holds up those of others. */
const SLOWEST_BYTES_PER_MS = 128
const MIN_FREE_BYTES = 512 * 1024 * 1024
const LOOK_BYTES = 16 * 1024 * 1024

export async function writeCompressed(
  from: Readable,
  file: string,
  signal?: AbortSignal,
  max_bytes = Number.POSITIVE_INFINITY,
): Promise<void> {
  const stalled = new AbortController()
  const timer = setTimeout(() => stalled.abort(), STALL_MS)
  const began = Date.now()
  let bytes = 0
  let looked = 0
  const watch = async function* (chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      timer.refresh()
      bytes += chunk.length
      if (bytes > max_bytes) throw new Error(`A file of its WAL has more than ${max_bytes} bytes.`)
      const elapsed = Date.now() - began
      if (elapsed > STALL_MS && bytes < elapsed * SLOWEST_BYTES_PER_MS) stalled.abort()
      if (bytes - looked > LOOK_BYTES) {
        looked = bytes
        requireSpace(file)
      }
      yield chunk
    }
  }
  const signals = [stalled.signal, ...(signal ? [signal] : [])]
  const to = fs.createWriteStream(file, { mode: 0o600, flush: true })
  try {
    await pipeline(from, watch, createGzip({ level: 1 }), to, { signal: AbortSignal.any(signals) })
  } catch (error) {
    const isOver = stalled.signal.aborted || (signal?.reason as Error | undefined)?.name === 'TimeoutError'
    throw isOver ? new Error('The database did not send it in time.') : error
  } finally {
    clearTimeout(timer)
  }
}

function requireSpace(file: string): void {
  if (freeBytesOf(dirname(file)) < MIN_FREE_BYTES)
    throw new PermanentError('The machine of the agent has less than 512 MiB left.')
}
