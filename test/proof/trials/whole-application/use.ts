// Uses the application over HTTP, as its customers do, and keeps what it has acknowledged.
import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { requestRouter } from '../../../support/process-engine.ts'

const CUSTOMERS = 3
const PAUSE_MS = 200
const TIMEOUT_MS = 15_000
const KINDS = ['rows', 'rows', 'files', 'tasks'] as const
export type Kind = (typeof KINDS)[number]

const digest = (text: string) => createHash('sha256').update(text).digest('hex')

/** `files`: the digest of each. */
export type Acknowledged = { rows: Set<string>; files: Map<string, string>; tasks: Set<string> }
export type Use = ReturnType<typeof startUse>

export function startUse(url: string, random: () => number) {
  const known: Acknowledged = { rows: new Set<string>(), files: new Map<string, string>(), tasks: new Set<string>() }
  const failures = new Map<string, number>()
  let isOver = false
  let count = 0
  let answer = Promise.withResolvers<void>()

  async function sendOne(): Promise<void> {
    const kind = KINDS[Math.floor(random() * KINDS.length)]!
    const key = `${kind}-${count++}`
    const body = kind === 'files' ? `${key}\n`.repeat(1 + Math.floor(random() * 5000)) : ''
    const options = { method: 'PUT', body, signal: AbortSignal.timeout(TIMEOUT_MS) }
    const { status } = await requestRouter(url, `/${kind}/${key}`, options).catch(() => ({ status: 0 }))
    if (status < 200 || status > 299) {
      const name = status === 0 ? 'no answer' : String(status)
      failures.set(name, (failures.get(name) ?? 0) + 1)
      return
    }
    if (kind === 'files') known.files.set(key, digest(body))
    else known[kind].add(key)
    answer.resolve()
    answer = Promise.withResolvers()
  }
  const customers = Promise.all(
    Array.from({ length: CUSTOMERS }, async () => {
      while (!isOver) {
        await sendOne()
        await delay(PAUSE_MS)
      }
    }),
  )
  return {
    /** Until now. */
    acknowledged: (): Acknowledged => ({
      rows: new Set(known.rows),
      files: new Map(known.files),
      tasks: new Set(known.tasks),
    }),
    /** Until the next request is acknowledged. */
    waitForAnswer: (most_ms: number) => Promise.race([answer.promise, delay(most_ms, undefined, { ref: false })]),
    describe() {
      const { rows, files, tasks } = known
      const failed = [...failures].map(([name, n]) => `${n} × ${name}`).join(', ')
      const done = `${rows.size} rows, ${files.size} files and ${tasks.size} tasks acknowledged`
      return `${done}; not answered well: ${failed || 'none'}`
    },
    async end(): Promise<void> {
      isOver = true
      await customers
    },
  }
}

export type Report = {
  rows: string[]
  files: Record<string, string>
  open: string[]
  effects: Record<string, number>
  /** The copy of `worker` that did each task. */
  workers: Record<string, string>
  repeated: number
  ticks: { slot: number; beat: string | null; sent_at: number | null }[]
  runs: Record<string, number>
}

export async function readJson<T>(url: string, path: string): Promise<T> {
  const { status, body } = await requestRouter(url, path, { signal: AbortSignal.timeout(30_000) })
  if (status !== 200) throw new Error(`${path} answered ${status}: ${body.slice(0, 300)}`)
  return JSON.parse(body)
}
