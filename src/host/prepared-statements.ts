// The statements that Postgres keeps parsed on one connection, and which of them it parses anew or closes.
import { hash } from 'node:crypto'
import { ONE_PLAN } from '../platform.ts'

/** The statement of a list takes 130 KB of the connection's memory. */
const MAX_KEPT = 50
const MAX_LENGTH = 32 * 1024
/**
 * Postgres plans a statement five times for its values, and may then keep one plan for all values. Made for a small
 * workspace, such a plan of a read takes a hundred times as long in a big one, so a read is parsed anew before.
 */
const PLANS_FOR_VALUES = 5
/** Writes find their rows by keys, and to plan them takes most of their time. But sweeps write a page of rows. */
const WRITE = /\b(insert into|update|delete from)\b/i
const PAGE = /\blimit \$\d/i

export type Field = { name: string; dataTypeID: number }
type Kept = { name: string; uses: number; maxUses: number; fields: Field[] }
/** Postgres describes the columns of a statement at its first use only. */
export type Use = { query: string; name: string; isParsed: boolean; fields?: Field[] }

export class PreparedStatements {
  /** By text, the least recently used first. */
  readonly #kept = new Map<string, Kept>()
  readonly #toClose = new Set<string>()

  /** Names the statements of a pipeline. Those that are too long to keep have an empty name. */
  use(queries: string[]): Use[] {
    const parsed = new Set<string>()
    return queries.map(query => {
      if (query.length > MAX_LENGTH) return { query, name: '', isParsed: true }
      const kept = this.#kept.get(query)
      this.#kept.delete(query)
      if (kept && kept.uses < kept.maxUses) {
        kept.uses++
        this.#kept.set(query, kept)
        return { query, name: kept.name, isParsed: false, fields: kept.fields }
      }
      // The same text has the same name on every connection: a pooler that swaps them runs the statement that is meant.
      const name = kept?.name ?? hash('sha1', query)
      const isParsed = !parsed.has(name)
      if (isParsed) this.#toClose.add(name)
      parsed.add(name)
      return { query, name, isParsed }
    })
  }

  /** To close before anything else in a pipeline, as nothing after a failure is done. */
  takeNamesToClose(): string[] {
    const names = [...this.#toClose]
    this.#toClose.clear()
    return names
  }

  /** After a pipeline that completed this many of its statements. Postgres may have parsed the next, too. */
  record(uses: Use[], completed: number): void {
    for (const { query, name, isParsed, fields } of uses.slice(0, completed)) {
      if (!name || !isParsed) continue
      const keepsPlan = query.startsWith(ONE_PLAN) || (WRITE.test(query) && !PAGE.test(query))
      const maxUses = keepsPlan ? Number.POSITIVE_INFINITY : PLANS_FOR_VALUES
      this.#kept.set(query, { name, uses: 1, maxUses, fields: fields! })
    }
    const failed = uses[completed]
    if (failed?.name && failed.isParsed) this.#toClose.add(failed.name)
    for (const query of this.#kept.keys()) {
      if (this.#kept.size <= MAX_KEPT) break
      this.#close(query)
    }
  }

  /** After a change of the schema, which any of them may not fit. */
  forgetAll(): void {
    for (const query of this.#kept.keys()) this.#close(query)
  }

  #close(query: string): void {
    this.#toClose.add(this.#kept.get(query)!.name)
    this.#kept.delete(query)
  }
}
