// A mixed load on control planes: lists, reads, changes and creations of deployments, and the polls of an agent.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'

type Kind = 'list' | 'get' | 'patch' | 'create' | 'revisions' | 'poll'
type Sample = { phase: string; kind: Kind; ms: number }
// biome-ignore lint/suspicious/noExplicitAny: answers of two releases
type Reply = { status: number; body: any }
/** Keys of a workspace that is full, and of one that is not. */
type Keys = { full: string; own: string }

const WORKERS = 6
const PAUSE_MS = 10
const PUBLIC_KEY = 'BMWOPPT6fvI84CovNcaIsJEn0aiRnU30Qx4O_QXfkW-XP2qQAyULEqKYACUGYluyNPLiLmjuhjV11bQdp-b2qnk'

export class Load {
  targets: string[]
  readonly failures: string[] = []
  readonly #keys: Keys
  readonly #samples: Sample[] = []
  readonly #created: { id: string; name: string }[] = []
  #seeded: string[] = []
  #listener = { id: '', key: '' }
  #phase = 'start'
  #isStopping = false
  readonly #inFlight = new Map<number, string>()
  #next = 0

  constructor(keys: Keys, target: string) {
    this.#keys = keys
    this.targets = [target]
  }

  async prepare(): Promise<void> {
    const { body } = await this.#send('list', 'GET', '/v2/deployments?limit=100&status=READY')
    this.#seeded = body.resources.map(({ id }: { id: string }) => id)
    const name = `trial-${randomUUID().slice(0, 8)}`
    const ofTrial = { compute_type: 'local', compute_id: name }
    const listener = await this.#send('create', 'POST', '/v2/listeners', ofTrial, this.#keys.own)
    const key = await this.#send('create', 'POST', `/v2/listeners/${listener.body.id}/keys`, {}, this.#keys.own)
    this.#listener = { id: listener.body.id, key: key.body.key }
    this.#samples.length = 0
  }

  async run(): Promise<void> {
    await Promise.all([this.#poll(), ...Array.from({ length: WORKERS }, (_, i) => this.#work(i))])
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    while (this.#inFlight.size > 0) await delay(20)
  }

  /** Requests that are sent while `during` runs are counted under this name. */
  async phase(name: string, during: () => Promise<unknown>): Promise<void> {
    this.#phase = name
    await during()
    this.#phase = 'between'
  }

  /** Until no request to another target than the present ones is in flight. */
  async settled(): Promise<void> {
    while ([...this.#inFlight.values()].some(target => !this.targets.includes(target))) await delay(20)
  }

  report(): string[] {
    const phases = [...new Set(this.#samples.map(({ phase }) => phase))].filter(phase => phase !== 'between')
    return phases.flatMap(phase => {
      const samples = this.#samples.filter(sample => sample.phase === phase)
      const line = (name: string, of: Sample[]) => {
        const times = of.map(({ ms }) => ms).sort((a, b) => a - b)
        const at = (share: number) => (times[Math.floor(times.length * share)] ?? 0).toFixed(0).padStart(5)
        const count = `${of.length}`.padStart(6)
        return `${name.padEnd(28)}${count} requests, p50${at(0.5)}, p99${at(0.99)}, max${at(0.99999)} ms`
      }
      const direct = samples.filter(({ kind }) => kind !== 'poll')
      const kinds = [...new Set(samples.map(({ kind }) => kind))].sort()
      return [
        line(phase, direct),
        ...kinds.map(kind =>
          line(
            `  ${kind}`,
            samples.filter(one => one.kind === kind),
          ),
        ),
      ]
    })
  }

  /** Reads every deployment that was created. */
  async verify(target: string): Promise<boolean> {
    this.targets = [target]
    for (const { id, name } of this.#created) {
      const { status, body } = await this.#send('get', 'GET', `/v2/deployments/${id}`, undefined, this.#keys.own)
      if (status !== 200 || body.name !== name) return false
    }
    return this.#created.length > 0
  }

  async #work(worker: number): Promise<void> {
    for (let n = worker; !this.#isStopping; n++) {
      await this.#step(n)
      await delay(PAUSE_MS)
    }
  }

  async #step(n: number): Promise<void> {
    const pick = <T>(list: T[]) => list[Math.floor(Math.random() * list.length)]!
    const id = pick(this.#seeded)
    if (n % 12 === 0) {
      const name = `trial-${randomUUID()}`
      const deployment = {
        name,
        source: 'internal_source',
        source_config: { listener_id: this.#listener.id },
        source_revision_config: {},
        secrets: [{ name: 'TOKEN', value: 'a secret of the trial' }],
      }
      const { status, body } = await this.#send('create', 'POST', '/v2/deployments', deployment, this.#keys.own)
      if (status === 201) this.#created.push({ id: body.id, name })
    } else if (n % 4 === 1)
      await this.#send('patch', 'PATCH', `/v2/deployments/${id}`, {
        source_config: { resource_spec: { cpu: 1 + (n % 7) } },
      })
    else if (n % 4 === 2) await this.#send('list', 'GET', `/v2/deployments?limit=20&offset=${n % 200}`)
    else if (n % 8 === 3) await this.#send('revisions', 'GET', `/v2/deployments/${id}/revisions`)
    else if (n % 8 === 7 && this.#created.length > 0)
      await this.#send('get', 'GET', `/v2/deployments/${pick(this.#created).id}`, undefined, this.#keys.own)
    else await this.#send('get', 'GET', `/v2/deployments/${id}`)
  }

  async #poll(): Promise<void> {
    const agent = { agent_id: randomUUID(), version: 'trial', public_key: PUBLIC_KEY, wait: 1 }
    let state = {}
    while (!this.#isStopping) {
      const { status, body } = await this.#send(
        'poll',
        'POST',
        '/v1/sync/poll',
        { ...agent, ...state },
        this.#listener.key,
      )
      if (status === 200) state = { fence: body.lease.fence, cursor: body.cursor, digest: body.digest }
      await delay(PAUSE_MS)
    }
  }

  async #send(kind: Kind, method: string, path: string, body?: object, key = this.#keys.full): Promise<Reply> {
    const number = this.#next++
    const target = this.targets[number % this.targets.length]!
    this.#inFlight.set(number, target)
    const start = performance.now()
    const phase = this.#phase
    try {
      const response = await fetch(target + path, {
        method,
        headers: { 'X-Api-Key': key, 'Content-Type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
      })
      const reply = { status: response.status, body: await response.json() }
      if (!response.ok) this.#fail(phase, kind, `${reply.status} ${JSON.stringify(reply.body).slice(0, 300)}`)
      return reply
    } catch (error) {
      this.#fail(phase, kind, String((error as Error).cause ?? error))
      return { status: 0, body: {} }
    } finally {
      this.#inFlight.delete(number)
      this.#samples.push({ phase, kind, ms: performance.now() - start })
    }
  }

  #fail(phase: string, kind: Kind, what: string): void {
    this.failures.push(`${kind} while ${phase}: ${what}`)
  }
}
