// The sizes of the disks of a deployment, which are measured and not reserved, and which of its disks are full.
import { join } from 'node:path'
import { DEFAULT_DISK_GI } from '../../../protocol/defaults.ts'
import type { Disk } from '../../../protocol/disks.ts'
import { readJson, writeJson } from '../../system/files.ts'

/**
 * `full`: it is over its size. `stopped`: so far that copies may not run. `crowding`: nor may they because the machine
 * has little space left.
 */
type DiskState = { storage_gi: number; full: boolean; stopped: boolean; crowding?: boolean }
export type DiskChange = { state: DiskState; message: string }
type States = Record<string, DiskState>

const MB_PER_GI = 1024
/** A disk may exceed its size by this share before the copies end. It is measured, and measuring takes time. */
const TOLERANCE = 1.1

/** `folder`: of the deployment. */
export class DiskSizes {
  readonly #file: string

  constructor(folder: string) {
    this.#file = join(folder, 'disks.json')
  }

  list(): string[] {
    return Object.keys(this.#read())
  }

  /** A size may change. */
  record(disks: Disk[]): void {
    if (disks.length === 0) return
    const states = this.#read()
    for (const { name, storage_gi } of disks) {
      const known = states[name] ?? { full: false, stopped: false }
      states[name] = { ...known, storage_gi: storage_gi ?? DEFAULT_DISK_GI }
    }
    this.#write(states)
  }

  forget(name: string): void {
    const { [name]: _, ...others } = this.#read()
    this.#write(others)
  }

  sizeOf(name: string): number {
    return this.#read()[name]?.storage_gi ?? 0
  }

  /** The most megabytes that are worth counting. */
  mostOf(name: string): number {
    return this.sizeOf(name) * MB_PER_GI * TOLERANCE + 1
  }

  /** Undefined if nothing has changed. */
  judge(name: string, used_mb: number): DiskChange | undefined {
    const states = this.#read()
    const known = states[name]
    if (!known) return undefined
    const limit = known.storage_gi * MB_PER_GI
    const state = { ...known, full: used_mb > limit, stopped: used_mb > limit * TOLERANCE }
    if (state.full === known.full && state.stopped === known.stopped) return undefined
    this.#writeIfPossible({ ...states, [name]: state })
    const message = state.full
      ? `The ${describeFull(name, known.storage_gi)}`
      : `The disk \`${name}\` is below its storage_gi again.`
    return { state, message }
  }

  /** Undefined if nothing has changed. */
  setCrowding(name: string, crowding: boolean, reserve_mb: number): DiskChange | undefined {
    const states = this.#read()
    const known = states[name]
    if (!known || crowding === (known.crowding ?? false)) return undefined
    const state = { ...known, crowding }
    this.#writeIfPossible({ ...states, [name]: state })
    const message = crowding
      ? `The machine has less than ${reserve_mb} MB left, and the ${describeCrowding(name)}`
      : `There is room for the disk \`${name}\` on the machine again.`
    return { state, message }
  }

  /** The reason why no copy may be started; null if one may. */
  obstacle(): string | null {
    for (const [name, { storage_gi, stopped, crowding }] of Object.entries(this.#read())) {
      if (stopped) return `its ${describeFull(name, storage_gi)}`
      if (crowding) return `the machine has little space left, and its ${describeCrowding(name)}`
    }
    return null
  }

  #read(): States {
    return readJson<States>(this.#file) ?? {}
  }

  #write(states: States): void {
    writeJson(this.#file, states)
  }

  /** On a machine without space a change cannot be recorded. It still ends copies, at each measurement until it can. */
  #writeIfPossible(states: States): void {
    try {
      this.#write(states)
    } catch {}
  }
}

const describeFull = (name: string, storage_gi: number) =>
  `disk \`${name}\` is full: it has more than its storage_gi of ${storage_gi}. Raise it, or delete files by a job, ` +
  `such as \`slipway run NAME -- rm -r …\`. Copies end at a tenth more.`

const describeCrowding = (name: string) =>
  `disk \`${name}\` takes more than its share of it. Delete files by a job, or ask the operator for more space.`
