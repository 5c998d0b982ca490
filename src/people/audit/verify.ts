// Verifies the hash chain and the signatures of a journal, page by page.
import { sql } from 'drizzle-orm'
import { type Database, type Row, runAsSystem } from '../../kernel/db/db.ts'
import { toIsoTime } from '../../kernel/db/rows.ts'
import { EVENT_CONTENT, hashEvent, type JournalSigner } from './hash-chain.ts'

const PAGE_ROWS = 500
/** Each journal is signed once a day, so an older event is covered by a signature. */
const UNSIGNED_MS = 2 * 24 * 60 * 60_000
/** Between the clocks of the app and the database. */
const CLOCK_SKEW_MS = 60 * 60_000
const MAX_EXPLAINED = 20

type ChainFault = { kind: 'changed' | 'removed' | 'inserted' | 'reordered' | 'signature'; message: string }
export type JournalReport = {
  scope: string
  events: number
  /** Written before the hash chain existed. */
  withoutHash: number
  heads: number
  /** Signatures whose key is no longer in SEALING_KEYS. */
  unknownKeys: number
  faults: ChainFault[]
}

type EventRow = { seq: number; hash: string | null; created_at: string; content: string }
type Checkpoint = { seq: number; hash: string | null; expired_before: string; signature: string }
type Head = { seq: number; hash: string; signed_at: string; signature: string }
type JournalPage = { rows: EventRow[] | null; counter: number | null; checkpoint: Checkpoint | null }
type Mismatch = { seq: number; hash: string; content: string; previous: string | null }

/** Lists every journal, also one whose counter was deleted. */
export async function listJournals(database: Database): Promise<string[]> {
  const [rows] = await runAsSystem(
    database,
    sql<Row>`
      with recursive scopes as (
        (select scope_id from events order by scope_id limit 1)
        union all
        select (select e.scope_id from events e where e.scope_id > s.scope_id order by e.scope_id limit 1)
        from scopes s
        where s.scope_id is not null
      )
      select scope_id from scopes where scope_id is not null
      union
      select scope_id from journals
      union
      select scope_id from journal_heads
      order by 1`,
  )
  return (rows as [string][]).map(([scope]) => scope)
}

async function readPage(database: Database, scope: string, after: number | null): Promise<JournalPage> {
  const [rows] = await runAsSystem(
    database,
    sql<Row>`
      with page as (
        select seq, hash, created_at, ${EVENT_CONTENT} as content
        from events
        where scope_id = ${scope}::uuid
          ${after === null ? sql`` : sql`and seq > ${after}::bigint`}
        order by seq
        limit ${PAGE_ROWS}
      )
      select json_build_object(
        'rows', (select json_agg(page order by seq) from page),
        'counter', (select seq from journals where scope_id = ${scope}::uuid),
        'checkpoint', (select to_json(c) from journal_checkpoints c where c.scope_id = ${scope}::uuid)
      )::text`,
  )
  return JSON.parse((rows as [string][])[0]![0])
}

async function readHeads(database: Database, scope: string): Promise<Head[]> {
  const [rows] = await runAsSystem(
    database,
    sql<Row>`
      select to_json(h)::text
      from journal_heads h
      where h.scope_id = ${scope}::uuid
      order by h.seq`,
  )
  return (rows as [string][]).map(([head]) => JSON.parse(head))
}

export async function verifyJournal(
  { database, signer, now = Date.now() }: { database: Database; signer: JournalSigner; now?: number },
  scope: string,
): Promise<JournalReport> {
  const report: JournalReport = { scope, events: 0, withoutHash: 0, heads: 0, unknownKeys: 0, faults: [] }
  const addFault = (kind: ChainFault['kind'], message: string) => void report.faults.push({ kind, message })
  const isSigned = async (place: Parameters<JournalSigner['verify']>[0], signature: string) => {
    if (!signer.hasKeyOf(signature)) {
      report.unknownKeys++
      return false
    }
    if (await signer.verify(place, signature)) return true
    addFault('signature', `The signature of the ${place.kind} at event ${place.seq} is wrong: it was changed.`)
    return false
  }

  // Read first: events that are written from now on are newer than these, and those of the first page as old.
  const heads = new Map<number, Head>()
  for (const head of await readHeads(database, scope)) {
    const { seq, hash, signature } = head
    const at = toIsoTime(head.signed_at)
    if (await isSigned({ kind: 'head', scope, seq, hash, at }, signature)) heads.set(seq, { ...head, signed_at: at })
  }
  report.heads = heads.size
  const lastSigned = Math.max(0, ...heads.keys())
  let page = await readPage(database, scope, null)
  const counter = page.counter ?? 0
  const chain = new ChainCheck(addFault)
  let firstUnsigned: EventRow | undefined
  for (;;) {
    const rows = page.rows ?? []
    for (const row of rows) {
      chain.add(row, page.checkpoint)
      report.events++
      if (row.hash === null) report.withoutHash++
      const head = heads.get(row.seq)
      if (head && head.hash !== row.hash)
        addFault(
          'signature',
          `Event ${row.seq} has another hash than the one signed on ${head.signed_at}: ` +
            'this event or an earlier one was changed, and the hashes computed again.',
        )
      const isOld = Date.parse(toIsoTime(row.created_at)) < now - UNSIGNED_MS
      if (row.hash !== null && row.seq > lastSigned && isOld) firstUnsigned ??= row
    }
    if (rows.length < PAGE_ROWS) break
    page = await readPage(database, scope, rows.at(-1)!.seq)
  }
  chain.explainMismatches()

  const { checkpoint } = page
  const last = chain.last ?? checkpoint?.seq ?? 0
  if (last < counter)
    addFault('removed', `Events ${last + 1} to ${counter} are missing: the newest events were removed.`)
  if (last > (page.counter ?? 0))
    addFault('inserted', `Event ${last} is beyond the counter of the journal, ${page.counter ?? 'which is missing'}.`)
  for (const { seq, signed_at } of heads.values())
    if (seq > last) addFault('removed', `Event ${seq} was signed on ${signed_at} and is missing.`)
  if (firstUnsigned)
    addFault(
      'signature',
      `No signature covers event ${firstUnsigned.seq} of ${toIsoTime(firstUnsigned.created_at)}: ` +
        'the signature was deleted, or the scheduled work does not run.',
    )
  if (checkpoint) {
    const { seq, hash, signature } = checkpoint
    const at = toIsoTime(checkpoint.expired_before)
    if (await isSigned({ kind: 'checkpoint', scope, seq, hash, at }, signature)) {
      const early = [...heads.values()].find(
        head => head.seq < seq && Date.parse(head.signed_at) > Date.parse(at) + CLOCK_SKEW_MS,
      )
      if (early)
        addFault('removed', `Events ${early.seq + 1} to ${seq} were removed before their time: their age was changed.`)
    }
  }
  return report
}

/** Follows the chain from event to event. */
class ChainCheck {
  last: number | undefined
  #addFault: (kind: ChainFault['kind'], message: string) => void
  #previous: string | null = null
  /** False after a gap: the hash of the event before is not known. */
  #isPreviousKnown = true
  #beforePrevious: string | null = null
  /** The offset by which events were renumbered since one was inserted or removed. */
  #shift = 0
  #mismatches: Mismatch[] = []

  constructor(addFault: (kind: ChainFault['kind'], message: string) => void) {
    this.#addFault = addFault
  }

  add({ seq, hash, content }: EventRow, checkpoint: Checkpoint | null): void {
    const isFirst = this.last === undefined
    const isAfterCheckpoint = checkpoint !== null && seq === checkpoint.seq + 1
    if (isAfterCheckpoint && (isFirst || this.last !== checkpoint.seq)) this.#follow(checkpoint.hash)
    else if (isFirst) this.#begin(seq, hash, content)
    else if (seq !== this.last! + 1) {
      this.#addFault('removed', `${nameEvents(this.last! + 1, seq - 1)} missing: removed from the middle.`)
      this.#isPreviousKnown = false
    }
    if (hash === null) {
      if (this.#previous !== null) this.#addFault('changed', `Event ${seq} has no hash, but the event before has one.`)
    }
    const next = hash !== null && this.#isPreviousKnown ? this.#checkHash(seq, hash, content) : hash
    this.#beforePrevious = this.#previous
    this.#follow(next)
    this.last = seq
  }

  #follow(hash: string | null): void {
    this.#previous = hash
    this.#isPreviousKnown = true
  }

  /**
   * Begins a journal without a checkpoint: earlier events are missing only if they were deleted before the chain
   * existed.
   */
  #begin(seq: number, hash: string | null, content: string): void {
    if (seq < 1) this.#addFault('inserted', `Event ${seq} is before the first event of the journal.`)
    if (seq <= 1 || hash === null || hashEvent(null, seq, content) === hash) return
    this.#addFault('removed', `${nameEvents(1, seq - 1)} missing: the oldest events were removed.`)
    this.#isPreviousKnown = false
  }

  /** Returns the hash that the next event follows. */
  #checkHash(seq: number, hash: string, content: string): string {
    const number = seq - this.#shift
    const previous = this.#previous
    if (hashEvent(previous, number, content) === hash) return hash
    const isOneLater = hashEvent(this.#beforePrevious, number - 1, content) === hash
    const before = this.#mismatches.at(-1)
    if (isOneLater && before?.seq === seq - 1 && hashEvent(hash, number, before.content) === before.hash) {
      this.#addFault('reordered', `Events ${seq - 1} and ${seq} were exchanged.`)
      this.#mismatches.pop()
      return before.hash
    }
    if (isOneLater) {
      this.#addFault('inserted', `Event ${seq - 1} was inserted, and the later events were renumbered.`)
      this.#shift++
    } else if (hashEvent(previous, number + 1, content) === hash) {
      this.#addFault('removed', `An event before event ${seq - 1} was removed, and the later events were renumbered.`)
      this.#shift--
    } else this.#mismatches.push({ seq, hash, content, previous })
    return hash
  }

  /** An event that moved still has the hash of its first place. The one after such an event follows another hash. */
  explainMismatches(): void {
    const found = this.#mismatches.slice(0, MAX_EXPLAINED)
    const hashes = new Set(found.flatMap(({ hash, previous }) => [hash, previous]))
    const isOriginal = ({ hash, content }: Mismatch, seq: number) =>
      [...hashes].some(previous => hashEvent(previous, seq, content) === hash)
    for (const mismatch of found) {
      const { seq } = mismatch
      if (isOriginal(mismatch, seq)) continue
      const place = found.find(other => other.seq !== seq && isOriginal(mismatch, other.seq))
      if (place) this.#addFault('reordered', `Event ${seq} was written as event ${place.seq}.`)
      else this.#addFault('changed', `Event ${seq} was changed, or event ${seq - 1} together with its hash.`)
    }
    const more = this.#mismatches.length - found.length
    if (more > 0) this.#addFault('changed', `${more} further events do not match their hashes.`)
  }
}

const nameEvents = (first: number, last: number): string =>
  first === last ? `Event ${first} is` : `Events ${first} to ${last} are`
