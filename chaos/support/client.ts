// A client as one should be: it names each write by a key and says it again until it is answered.
import { setTimeout as delay } from 'node:timers/promises'
import { makeImageBody } from '../../test/support/deployment-bodies.ts'
import type { Fetch } from './testbed.ts'

export type Client = ReturnType<typeof makeClient>
export type Answer = { status: number; headers: Headers; body: Record<string, unknown> }
/** What was answered besides success, how often, and how long the slowest answer took. */
export class Tally {
  readonly counts = new Map<string, number>()
  /** Refusals that did not say when to come back. */
  withoutRetryAfter = 0
  slowest = 0
  replayed = 0
  record({ status, headers, body }: Answer, ms: number): void {
    this.slowest = Math.max(this.slowest, ms)
    if (headers.has('Idempotency-Replayed')) this.replayed++
    const name = status < 300 ? String(status) : `${status} ${body.code}`
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1)
    if (status === 503 && !headers.has('Retry-After')) this.withoutRetryAfter++
  }
  /** Answers that are none of those. */
  listUnexpected(...expected: (string | RegExp)[]): string[] {
    const is = (name: string) => expected.some(one => (typeof one === 'string' ? one === name : one.test(name)))
    return [...this.counts].filter(([name]) => !is(name)).map(([name, count]) => `${count} × ${name}`)
  }
  toString(): string {
    return [...this.counts]
      .toSorted()
      .map(([name, count]) => `${count} × ${name}`)
      .join(', ')
  }
}

const RETRY_TIMEOUT_MS = 60_000

export function makeClient(fetch: Fetch, key: string, tally = new Tally()) {
  async function send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
    const started = performance.now()
    const response = await fetch(
      new Request(`http://slipway.test${path}`, {
        method,
        headers: { 'X-Api-Key': key, 'Content-Type': 'application/json', ...headers },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }),
    )
    const text = await response.text()
    const answer: Answer = { status: response.status, headers: response.headers, body: text ? JSON.parse(text) : {} }
    tally.record(answer, performance.now() - started)
    return answer
  }
  /** Until it is answered with success, or with something that saying it again does not mend. */
  async function insist(method: string, path: string, body: unknown): Promise<Answer> {
    const headers = { 'Idempotency-Key': crypto.randomUUID() }
    const deadline = Date.now() + RETRY_TIMEOUT_MS
    for (;;) {
      const answer = await send(method, path, body, headers)
      const passing = answer.status === 503 || answer.body.code === 'idempotency_in_flight'
      if (!passing || Date.now() > deadline) return answer
      await delay(5)
    }
  }
  return { send, insist, tally }
}

export async function createDeployments({ insist }: Client, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let i = 0; i < count; i++) {
    const { status, body } = await insist('POST', '/v2/deployments', makeImageBody())
    if (status !== 201) throw new Error(`A deployment could not be made: ${status} ${body.detail}`)
    ids.push(body.id as string)
  }
  return ids
}

/** So many workers in parallel until none has work left. */
export const runWorkers = (workers: number, work: (worker: number) => Promise<void>): Promise<unknown> =>
  Promise.all(Array.from({ length: workers }, (_, worker) => work(worker)))
