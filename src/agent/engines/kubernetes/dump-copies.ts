// Copies of dumps in a bucket, so that they outlive the cluster. The agent carries them through its own connection: no
// pod in the namespace of an application gets the credentials of the bucket.
import { Duplex, Readable, Writable } from 'node:stream'
import { json } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { createTarPacker } from 'modern-tar'
import { HeldSnapshot } from '../../../protocol/snapshots.schema.ts'
import type { BucketStore } from '../../archive/bucket-store.ts'
import { PermanentError, type RevisionSpec } from '../../engine.ts'
import { describeError } from '../../redaction/error-messages.ts'
import type { LogEvent } from '../../system/log-event.ts'
import { type DatabaseDumps, type HeldDump, requireBytes } from './database-dumps.ts'

export type HeldCopy = { held: HeldSnapshot; copy: true }
type Options = { store: BucketStore; dumps: DatabaseDumps; logEvent: LogEvent }

const FOLDER = 'dumps'
const fileOf = (id: string) => `${FOLDER}/${id}/database.dump`
/** It comes last: what it describes is there. */
const recordOf = (id: string) => `${FOLDER}/${id}/snapshot.json`

export class DumpCopies {
  readonly #options: Options
  /** Null until the bucket has answered. */
  #known: Map<string, HeldCopy> | null = null
  /** Since the present carrying began. */
  readonly #removed = new Set<string>()
  #carrying: Promise<void> | undefined
  #failure: string | undefined

  constructor(options: Options) {
    this.#options = options
  }

  /** A bucket that does not answer has what it had. Rejects if that is not known. */
  async list(): Promise<HeldCopy[]> {
    try {
      this.#known = await this.#read(this.#known ?? new Map())
    } catch (error) {
      if (!this.#known) throw error
    }
    return [...this.#known.values()]
  }

  async #read(known: Map<string, HeldCopy>): Promise<Map<string, HeldCopy>> {
    const { store } = this.#options
    const found = new Map<string, HeldCopy>()
    for (const id of await store.list(FOLDER)) {
      const copy = known.get(id) ?? (await this.#readRecord(id))
      if (copy) found.set(id, copy)
    }
    return found
  }

  /** Without a record, it is not complete. */
  async #readRecord(id: string): Promise<HeldCopy | undefined> {
    const body = await this.#options.store.open(recordOf(id))
    const { data: held } = HeldSnapshot.safeParse(body && (await json(body).catch(() => undefined)))
    return held?.id === id ? { held, copy: true } : undefined
  }

  /** Does not wait. One that fails is tried again with the next call, and holds up nothing. */
  carry(dumps: HeldDump[]): void {
    this.#carrying ??= this.#carryAll(dumps).finally(() => {
      this.#carrying = undefined
      this.#removed.clear()
    })
  }

  async #carryAll(dumps: HeldDump[]): Promise<void> {
    const { logEvent } = this.#options
    const failure = await this.#carryNew(dumps).then(
      () => undefined,
      (error: Error) => describeError(error),
    )
    if (failure !== undefined && failure !== this.#failure) logEvent('dumps not stored', { error: failure })
    this.#failure = failure
  }

  async #carryNew(dumps: HeldDump[]): Promise<void> {
    const { store } = this.#options
    const failures: Error[] = []
    for (const dump of dumps) {
      const { held } = dump
      if (this.#known?.has(held.id) || this.#removed.has(held.id)) continue
      await this.#carryOne(dump).catch(error => failures.push(error))
      // It may have been removed meanwhile.
      if (this.#removed.has(held.id)) await store.removeFolder(`${FOLDER}/${held.id}`)
    }
    if (failures[0]) throw failures[0]
  }

  async #carryOne(dump: HeldDump): Promise<void> {
    const { store, dumps } = this.#options
    const { held } = dump
    const { output, done, end } = await dumps.openFile(dump)
    try {
      await store.write(fileOf(held.id), held.size_bytes, output)
      await done
    } finally {
      output.destroy()
      end()
    }
    const record = Buffer.from(JSON.stringify(held))
    await store.write(recordOf(held.id), record.length, Readable.from([record]))
    this.#known?.set(held.id, { held, copy: true })
  }

  async remove(id: string): Promise<void> {
    if (this.#carrying) this.#removed.add(id)
    await this.#options.store.removeFolder(`${FOLDER}/${id}`)
    this.#known?.delete(id)
  }

  /** Into the claim of the deployment that it is restored into. The file goes again with `DatabaseDumps.remove`. */
  async bring(spec: RevisionSpec, { held }: HeldCopy, signal: AbortSignal): Promise<HeldDump> {
    const body = await this.#open(held, signal)
    return this.#options.dumps.receiveFile(spec, held, body, signal)
  }

  async openTar({ held }: HeldCopy, signal: AbortSignal): Promise<Duplex> {
    const body = await this.#open(held, signal)
    const { readable, controller } = createTarPacker()
    const entry = controller.add({ name: `${held.id}.dump`, size: held.size_bytes, type: 'file', mode: 0o600 })
    void pipeline(body, requireBytes(held.size_bytes), Writable.fromWeb(entry as never)).then(
      () => controller.finalize(),
      error => controller.error(error),
    )
    const writable = new Writable({ write: (_, __, done) => done() })
    const both = Duplex.from({ readable: Readable.fromWeb(readable as never), writable })
    return both.once('end', () => both.end())
  }

  async #open({ id }: HeldSnapshot, signal: AbortSignal): Promise<Readable> {
    const body = await this.#options.store.open(fileOf(id), signal)
    if (body) return body
    throw new PermanentError('The bucket does not have the file of this snapshot any more. Use another one.')
  }
}
