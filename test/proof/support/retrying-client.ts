// A well-behaved client: it names each write by an idempotency key and retries until it is answered.
import { setTimeout as delay } from 'node:timers/promises'
import { makeImageBody } from '../../support/deployment-bodies.ts'
import type { Fetch } from './testbed.ts'

export type Client = ReturnType<typeof makeClient>
export type Answer = { status: number; headers: Headers; body: Record<string, unknown> }
/** Counts answers by status and code. */
export class Tally {
  readonly counts = new Map<string, number>()
  /** 503 without Retry-After. */
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
  listUnexpected(...expected: (string | RegExp)[]): string[] {
    const isExpected = (name: string) => expected.some(one => (typeof one === 'string' ? one === name : one.test(name)))
    return [...this.counts].filter(([name]) => !isExpected(name)).map(([name, count]) => `${count} × ${name}`)
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
  /** Retries what a retry can resolve. */
  async function sendUntilAnswered(method: string, path: string, body: unknown): Promise<Answer> {
    const headers = { 'Idempotency-Key': crypto.randomUUID() }
    const deadline = Date.now() + RETRY_TIMEOUT_MS
    for (;;) {
      const answer = await send(method, path, body, headers)
      const isTransient = answer.status === 503 || answer.body.code === 'idempotency_in_flight'
      if (!isTransient || Date.now() > deadline) return answer
      await delay(5)
    }
  }
  return { send, sendUntilAnswered, tally }
}

export async function createDeployments({ sendUntilAnswered }: Client, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let i = 0; i < count; i++) {
    const { status, body } = await sendUntilAnswered('POST', '/v2/deployments', makeImageBody())
    if (status !== 201) throw new Error(`A deployment could not be created: ${status} ${body.detail}`)
    ids.push(body.id as string)
  }
  return ids
}

export const runWorkers = (workers: number, work: (worker: number) => Promise<void>): Promise<unknown> =>
  Promise.all(Array.from({ length: workers }, (_, worker) => work(worker)))
