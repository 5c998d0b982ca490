// The sizes of the disks of a deployment, which are measured and not reserved, and which of its disks are full.
import { join } from 'node:path'
import { DEFAULT_DISK_GI, type Disk } from '../../../protocol/disks.ts'
import { readJson, writeJson } from '../../system/files.ts'

/** `full`: it is over its size. `stopped`: so far that copies may not run. */
export type DiskState = { storage_gi: number; full: boolean; stopped: boolean }
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

  /** The most megabytes that are worth counting. */
  mostOf(name: string): number {
    return (this.#read()[name]?.storage_gi ?? 0) * MB_PER_GI * TOLERANCE + 1
  }

  /** Undefined if nothing has changed. */
  judge(name: string, used_mb: number): DiskChange | undefined {
    const states = this.#read()
    const known = states[name]
    if (!known) return undefined
    const limit = known.storage_gi * MB_PER_GI
    const state = { ...known, full: used_mb > limit, stopped: used_mb > limit * TOLERANCE }
    if (state.full === known.full && state.stopped === known.stopped) return undefined
    this.#write({ ...states, [name]: state })
    const message = state.full
      ? `The ${describeFull(name, known.storage_gi)}`
      : `The disk \`${name}\` is below its storage_gi again.`
    return { state, message }
  }

  /** The reason why no copy may be started; null if one may. */
  obstacle(): string | null {
    const [name, state] = Object.entries(this.#read()).find(([, { stopped }]) => stopped) ?? []
    return name === undefined ? null : `its ${describeFull(name, state!.storage_gi)}`
  }

  #read(): States {
    return readJson<States>(this.#file) ?? {}
  }

  #write(states: States): void {
    writeJson(this.#file, states)
  }
}

const describeFull = (name: string, storage_gi: number) =>
  `disk \`${name}\` is full: it has more than its storage_gi of ${storage_gi}. Raise it, or delete files by a job, ` +
  `such as \`slipway run NAME -- rm -r …\`. Copies end at a tenth more.`
