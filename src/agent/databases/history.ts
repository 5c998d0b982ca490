// The history of a deployment's database in a store: base backups, and the WAL that leads from each to any later time.
// A generation is one data folder: a restore begins another, so that two histories never share the name of a WAL file.
import * as fs from 'node:fs'
import { join } from 'node:path'
import type { ArchiveStore } from '../archive/archive-store.ts'
import { PermanentError } from '../engine.ts'
import { readJson, writeJson } from '../system/files.ts'

export type BaseBackup = {
  generation: string
  name: string
  /** Times of the database. A time from the end on can be restored. */
  began_at: string
  ended_at: string
  /** The first WAL file that a recovery from it may read. */
  first_wal: string
  /** The WAL file in which it ended. A recovery to an earlier time reads no later one. */
  last_wal: string
  /** The position in the WAL after it. */
  lsn: string
  /** The version of Postgres. */
  major: number
  size_bytes: number
}
type Ended = { at: string }

const KEEP_MS = 7 * 24 * 3600_000
/** More than seven days have, unless much is written. */
const MAX_BACKUPS = 50
/** Timeline, then the number of the segment, in hexadecimal digits. */
export const SEGMENT = /^[0-9A-F]{24}$/
const segmentNumber = (name: string) => name.slice(8)

export class DatabaseHistory {
  readonly #store: ArchiveStore
  /** For files on their way from and to the store. */
  readonly #work: string

  constructor(store: ArchiveStore, work: string) {
    this.#store = store
    this.#work = work
  }

  async listBackups(deployment_id: string): Promise<BaseBackup[]> {
    const found: BaseBackup[] = []
    for (const generation of await this.#store.list(deployment_id))
      for (const name of await this.#store.list(`${deployment_id}/${generation}/base`)) {
        if (!name.endsWith('.json')) continue
        const base = await this.#readJson<BaseBackup>(`${deployment_id}/${generation}/base/${name}`)
        if (base) found.push(base)
      }
    return found.sort((a, b) => a.ended_at.localeCompare(b.ended_at))
  }

  /** Its description comes last, so a backup that is listed is complete. */
  async addBackup(deployment_id: string, base: BaseBackup, file: string): Promise<void> {
    const path = `${deployment_id}/${base.generation}/base/${base.name}`
    await this.#store.put(`${path}.tar.gz`, file)
    await this.#writeJson(`${path}.json`, base)
    // One whose data were lost with their machine has no end yet.
    for (const other of await this.#store.list(deployment_id)) {
      const isEnded = await this.#readJson(`${deployment_id}/${other}/ended.json`)
      if (other !== base.generation && !isEnded) await this.endGeneration(deployment_id, other, base.began_at)
    }
  }

  /** `file`: compressed. */
  async addWal(deployment_id: string, generation: string, name: string, file: string): Promise<void> {
    await this.#store.put(`${deployment_id}/${generation}/wal/${name}.gz`, file)
  }

  /** Nothing after that time is in it. */
  async endGeneration(deployment_id: string, generation: string, at: string): Promise<void> {
    await this.#writeJson(`${deployment_id}/${generation}/ended.json`, { at } satisfies Ended)
  }

  /** For a data folder that stays in use: a restore that should have replaced it was interrupted. */
  async resumeGeneration(deployment_id: string, generation: string): Promise<void> {
    await this.#store.remove(`${deployment_id}/${generation}/ended.json`)
  }

  /** The last base backup before a time, of the data folder that was in use then. */
  async findBackup(deployment_id: string, at: Date): Promise<BaseBackup> {
    const all = await this.listBackups(deployment_id)
    const first = all[0]
    if (!first) throw new PermanentError('There is no backup of this database yet. The first one follows its creation.')
    const time = at.toISOString()
    for (const base of all.filter(({ ended_at }) => ended_at <= time).reverse()) {
      const ended = await this.#readJson<Ended>(`${deployment_id}/${base.generation}/ended.json`)
      if (!ended || time <= ended.at) return base
    }
    throw new PermanentError(
      time < first.ended_at
        ? `The backups of this database begin at ${first.ended_at}. Choose a later time.`
        : `At ${time} the database was between a restore and its next backup. Choose another time.`,
    )
  }

  async fetchBackup(
    deployment_id: string,
    { generation, name }: BaseBackup,
    file: string,
    signal: AbortSignal,
  ): Promise<void> {
    const path = `${deployment_id}/${generation}/base/${name}.tar.gz`
    if (!(await this.#store.get(path, file, signal))) throw new PermanentError('The backup of that time is gone.')
  }

  /** Writes the WAL that leads from this backup to a time into a folder, compressed. */
  async fetchWal(
    deployment_id: string,
    base: BaseBackup,
    at: Date,
    folder: string,
    signal: AbortSignal,
  ): Promise<void> {
    const wal = `${deployment_id}/${base.generation}/wal`
    const next = (await this.listBackups(deployment_id)).find(
      ({ generation, began_at }) => generation === base.generation && began_at > at.toISOString(),
    )
    for (const name of await this.#store.list(wal)) {
      signal.throwIfAborted()
      const segment = name.replace(/\.gz$/, '')
      const isEarlier = segmentNumber(segment) < segmentNumber(base.first_wal)
      const isLater = next !== undefined && segmentNumber(segment) > segmentNumber(next.last_wal)
      if (SEGMENT.test(segment) && (isEarlier || isLater)) continue
      if (!(await this.#store.get(`${wal}/${name}`, join(folder, name), signal)))
        throw new PermanentError(`The WAL file ${segment} of this database is gone from its backups. Try again.`)
    }
  }

  /**
   * Removes what no time of the last seven days needs, and more of the oldest if all takes more than `max_bytes`. The
   * newest backup of the present data folder stays.
   */
  async sweep(deployment_id: string, present: string, max_bytes: number, now: number): Promise<void> {
    const oldest = new Date(now - KEEP_MS).toISOString()
    for (const generation of await this.#store.list(deployment_id)) {
      const ended = await this.#readJson<Ended>(`${deployment_id}/${generation}/ended.json`)
      if (generation !== present && ended && ended.at < oldest)
        await this.#store.removeFolder(`${deployment_id}/${generation}`)
    }
    let all = await this.listBackups(deployment_id)
    const isNeeded = (base: BaseBackup) => {
      const next = all.find(other => other.generation === base.generation && other.ended_at > base.ended_at)
      return next === undefined || next.ended_at > oldest
    }
    const first = all.find(({ generation }) => generation === present)
    if (first) await this.#removeWalBefore(deployment_id, first)
    for (const base of all.filter(base => !isNeeded(base))) all = await this.#removeBackup(deployment_id, base, all)
    while (all.length > MAX_BACKUPS || (all.length > 1 && (await this.#sizeOf(deployment_id)) > max_bytes))
      all = await this.#removeBackup(deployment_id, all[0]!, all)
  }

  /** With the WAL before the next one. Returns the backups that are left. */
  async #removeBackup(deployment_id: string, base: BaseBackup, all: BaseBackup[]): Promise<BaseBackup[]> {
    const folder = `${deployment_id}/${base.generation}`
    const left = all.filter(other => other !== base)
    const first = left.find(({ generation }) => generation === base.generation)
    if (!first) {
      await this.#store.removeFolder(folder)
      return left
    }
    // Without its description it is none any more.
    for (const suffix of ['json', 'tar.gz']) await this.#store.remove(`${folder}/base/${base.name}.${suffix}`)
    await this.#removeWalBefore(deployment_id, first)
    return left
  }

  async #removeWalBefore(deployment_id: string, { generation, first_wal }: BaseBackup): Promise<void> {
    const folder = `${deployment_id}/${generation}/wal`
    for (const name of await this.#store.list(folder)) {
      const segment = name.replace(/\.gz$/, '')
      if (SEGMENT.test(segment) && segmentNumber(segment) < segmentNumber(first_wal))
        await this.#store.remove(`${folder}/${name}`)
    }
  }

  async #sizeOf(deployment_id: string): Promise<number> {
    let bytes = 0
    for (const generation of await this.#store.list(deployment_id))
      for (const kind of ['base', 'wal']) bytes += await this.#store.sizeOf(`${deployment_id}/${generation}/${kind}`)
    return bytes
  }

  /** The WAL of a data folder: how much there is, and the last segment of it without the timeline. */
  async walOf(deployment_id: string, generation: string): Promise<{ bytes: number; newest: string }> {
    const folder = `${deployment_id}/${generation}/wal`
    const segments = (await this.#store.list(folder)).map(name => name.replace(/\.gz$/, ''))
    const numbers = segments.filter(name => SEGMENT.test(name)).map(segmentNumber)
    return { bytes: await this.#store.sizeOf(folder), newest: numbers.sort().at(-1) ?? '' }
  }

  /** Moves what an earlier setting has left elsewhere. */
  async settle(deployment_id: string): Promise<void> {
    if (!this.#store.settle) return
    const file = this.#temporaryFile()
    await this.#store.settle(deployment_id, file).finally(() => fs.rmSync(file, { force: true }))
  }

  async remove(deployment_id: string): Promise<void> {
    await this.#store.removeFolder(deployment_id)
  }

  async #writeJson(name: string, value: object): Promise<void> {
    const file = this.#temporaryFile()
    writeJson(file, value)
    await this.#store.put(name, file)
  }

  async #readJson<T extends object>(name: string): Promise<T | undefined> {
    const file = this.#temporaryFile()
    fs.mkdirSync(this.#work, { recursive: true, mode: 0o700 })
    try {
      return (await this.#store.get(name, file)) ? readJson<T>(file) : undefined
    } finally {
      fs.rmSync(file, { force: true })
    }
  }

  #temporaryFile(): string {
    return join(this.#work, `${crypto.randomUUID()}.json`)
  }
}
