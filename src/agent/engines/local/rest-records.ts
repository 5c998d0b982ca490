// The state of sleeping revisions, kept in a file of each for the next agent, which could not ask them.
import * as fs from 'node:fs'
import type { RevisionRef } from '../../engine.ts'
import { readJson, writeJson } from '../../system/files.ts'
import type { Rest } from './replica-pool.ts'

/** `wake_at`: when it asked to be awake. `types`: its processes that sleep with `web`. Earlier agents kept neither. */
export type StoredRest = { rest: Rest; wake_at?: number | null; types?: string[] }

export class RestRecords {
  readonly #fileOf: (ref: RevisionRef) => string

  constructor(fileOf: (ref: RevisionRef) => string) {
    this.#fileOf = fileOf
  }

  read(ref: RevisionRef): StoredRest | null {
    return readJson<StoredRest>(this.#fileOf(ref)) ?? null
  }

  write(ref: RevisionRef, rest: StoredRest | null): void {
    if (rest) writeJson(this.#fileOf(ref), rest)
    else fs.rmSync(this.#fileOf(ref), { force: true })
  }
}
