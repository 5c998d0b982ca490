// Notices a program that fills the disk before the next regular check of folders.
import { freeBytesOf } from '../../system/files.ts'

/** If the free space has fallen by more since folders were measured, they are measured at once. */
const FAST_BYTES = 64 * 1024 * 1024
/** Measuring takes at most one part in so many of the time. */
const PAUSES = 10

export class FreeSpace {
  /** When folders were measured, or more if space became free since. */
  #mostBytes = 0
  #pausedUntil = 0

  async look(folder: string, measure: () => Promise<void>): Promise<void> {
    const bytes = freeBytesOrNone(folder)
    this.#mostBytes = Math.max(this.#mostBytes, bytes)
    const start = Date.now()
    if (this.#mostBytes - bytes <= FAST_BYTES || start < this.#pausedUntil) return
    this.#mostBytes = bytes
    await measure()
    const end = Date.now()
    this.#pausedUntil = end + PAUSES * (end - start)
  }
}

function freeBytesOrNone(folder: string): number {
  try {
    return freeBytesOf(folder)
  } catch {
    return 0
  }
}
