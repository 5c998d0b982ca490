// Every platform expects these of a control plane: readiness, the address of a client, uploads, an end under load.
import { request } from 'node:http'
import { networkInterfaces } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { newApiKey } from '../../../../src/kernel/crypto/crypto.ts'
import { makeArchive } from '../../../support/archives.ts'
import { check, note } from '../../support/trial.ts'
import { type Instance, waitUntilReady } from './instance.ts'

const LOAD_WORKERS = 4
const LOAD_MS = 1500
/** Between the signal and the rest of a request that had begun before. */
const SLOW_BODY_MS = 700

export type Platform = {
  name: string
  ready: { path: string; withinMs: number }
  healthPath: string
  /** On every address of the machine, or on the loopback alone. */
  listens: 'everywhere' | 'on the loopback'
  /** Headers that the proxy of the platform sends for this client, who wrote `X-Forwarded-For: forged` itself. */
  clientHeaders(client: string, forged: string): Record<string, string>
  stop: {
    signal: NodeJS.Signals
    killedAfterMs: number
    /** The interval of readiness checks. The platform sends no requests to what is not ready. 0: it stops before. */
    checkMs: number
  }
}

/** Failed authentications of one address and minute. Two, so that a third one shows whose address was counted. */
export const LIMITS = { UNKNOWN_KEYS_PER_MINUTE: '2', RATE_LIMIT_PER_MINUTE: '0' }

/** `countUploads` counts them where this platform keeps them. */
export async function checkInstance(
  platform: Platform,
  instance: Instance,
  key: string,
  countUploads: () => Promise<number> | number,
): Promise<void> {
  const { name, ready, healthPath } = platform
  const ms = await waitUntilReady(instance, ready.path, ready.withinMs)
  note(`${name}: ready after ${ms} ms`)
  const statusOf = async (path: string) => (await fetch(instance.url + path)).status
  check(`${name}: ${healthPath} answers 200`, (await statusOf(healthPath)) === 200)
  check(`${name}: the dashboard is served`, (await statusOf('/ui')) === 200)
  await checkAddresses(platform, instance)
  await checkClientAddress(platform, instance)
  await checkUpload(platform, instance, key, countUploads)
}

async function checkAddresses({ name, listens }: Platform, instance: Instance): Promise<void> {
  // 127.0.0.2 is an address of this machine, and none of a server that listens on 127.0.0.1.
  const others = [
    '127.0.0.2',
    ...Object.values(networkInterfaces())
      .flatMap(list => list ?? [])
      .filter(({ family, internal }) => family === 'IPv4' && !internal)
      .map(({ address }) => address),
  ]
  const isAnswered = await Promise.all(
    others.map(host =>
      fetch(Object.assign(new URL('/healthz', instance.url), { hostname: host })).then(
        ({ ok }) => ok,
        () => false,
      ),
    ),
  )
  check(
    `${name}: it listens ${listens}`,
    isAnswered.every(answered => answered === (listens === 'everywhere')),
  )
}

/** Instances share their counts by the database, so each check has clients of its own. */
let clients = 0
const nextClient = () => `203.0.113.${++clients}`

/** The limit of unknown keys shows which address was counted. */
async function checkClientAddress({ name, clientHeaders }: Platform, instance: Instance): Promise<void> {
  const send = async (client: string, forged: string) => {
    const headers = { 'X-Api-Key': newApiKey(), ...clientHeaders(client, forged) }
    return (await fetch(`${instance.url}/v2/deployments`, { headers })).status
  }
  const [client, other] = [nextClient(), nextClient()]
  const first: number[] = []
  for (const forged of ['198.51.100.1', '198.51.100.2', '198.51.100.3']) first.push(await send(client, forged))
  const second = await send(other, client)
  const found = [...first, second].join(' ')
  check(`${name}: clients are told apart, and cannot forge their address`, found === '401 401 429 401', found)
}

async function checkUpload(
  { name }: Platform,
  instance: Instance,
  key: string,
  countUploads: () => Promise<number> | number,
): Promise<void> {
  const before = await countUploads()
  const send = async (path: string, body: object) => {
    const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json' }
    const answer = await fetch(instance.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`POST ${path}: ${answer.status} ${text}`)
    return JSON.parse(text) as { id: string; upload_url: string }
  }
  const { id } = await send('/v2/deployments', newDeployment('upload'))
  const { upload_url } = await send(`/v2/deployments/${id}/upload-url`, {})
  const stored = await fetch(upload_url, { method: 'PUT', body: await makeArchive() })
  const text = await stored.text()
  check(`${name}: an archive is stored`, stored.ok && (await countUploads()) > before, `${stored.status} ${text}`)
}

const newDeployment = (prefix: string) => ({
  name: `${prefix}-${crypto.randomUUID().slice(0, 8)}`,
  source: 'internal_source',
  source_config: {},
  source_revision_config: {},
  secrets: [],
})

/** Sends requests until the platform would send no more, and expects every one of them to be answered. */
export async function checkStop({ name, stop, ready }: Platform, instance: Instance, key: string): Promise<void> {
  const headers = { 'X-Api-Key': key }
  const failures: string[] = []
  let [isSending, sent] = [true, 0]
  const work = async () => {
    while (isSending) {
      sent++
      await fetch(`${instance.url}/v2/deployments`, { headers }).then(
        async answer => {
          const text = await answer.text()
          if (answer.status !== 200) failures.push(`${answer.status} ${text}`)
        },
        error => failures.push(String(error.cause ?? error)),
      )
    }
  }
  const workers = Array.from({ length: LOAD_WORKERS }, work)
  await delay(LOAD_MS)
  const slow = startSlowRequest(instance.url, key)
  await delay(200)
  if (stop.checkMs === 0) isSending = false
  const signalledAt = performance.now()
  await instance.signal(stop.signal)
  const finished = delay(SLOW_BODY_MS).then(() => slow.finish())
  while (isSending) {
    await delay(stop.checkMs)
    const answer = await fetch(instance.url + ready.path).catch(() => undefined)
    if (answer?.status !== 200) isSending = false
  }
  await Promise.all(workers)
  const status = await finished
  const killed = delay(stop.killedAfterMs, 'killed' as const, { ref: false })
  const end = await Promise.race([instance.ended, killed])
  const seconds = (performance.now() - signalledAt) / 1000
  note(`${name}: ended ${seconds.toFixed(1)} s after ${stop.signal}, ${sent} requests before`)
  check(`${name}: no request fails while it stops`, failures.length === 0, failures.slice(0, 3).join('; '))
  check(`${name}: a request that had begun is answered`, status === 201, `${status}`)
  check(
    `${name}: it ends by itself with status 0 before the platform kills it`,
    end === 0,
    `${end} ${instance.output().slice(-500)}`,
  )
}

/** A request whose body arrives in two halves. */
function startSlowRequest(url: string, key: string): { finish(): Promise<number | string> } {
  const body = JSON.stringify(newDeployment('slow'))
  const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json', 'Content-Length': body.length }
  const sent = request(`${url}/v2/deployments`, { method: 'POST', headers, agent: false })
  const answered = new Promise<number | string>(resolve => {
    sent.once('response', answer => resolve(answer.resume().statusCode!))
    sent.once('error', error => resolve(error.message))
  })
  sent.write(body.slice(0, 20))
  return {
    finish: () => {
      sent.end(body.slice(20))
      return answered
    },
  }
}
