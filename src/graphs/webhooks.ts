// A POST to the caller's URL after the end of a run.
import * as http from 'node:http'
import * as https from 'node:https'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import type { Configuration } from './configuration.ts'
import { HttpError } from './errors.ts'
import { findAddresses } from './host-addresses.ts'
import type { EndedRun } from './worker.ts'

type Policy = Configuration['webhooks']
type Environment = Record<string, string | undefined>

/** Addresses of this machine: what listens there is of others, or trusts them. */
const LOOPBACK = new BlockList()
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4')
LOOPBACK.addSubnet('0.0.0.0', 8, 'ipv4')
LOOPBACK.addAddress('::1', 'ipv6')
LOOPBACK.addAddress('::', 'ipv6')
/** Addresses at which clouds give credentials to a machine. No webhook is there. */
const LINK_LOCAL = new BlockList()
LINK_LOCAL.addSubnet('169.254.0.0', 16, 'ipv4')
LINK_LOCAL.addSubnet('fe80::', 10, 'ipv6')
LINK_LOCAL.addAddress('fd00:ec2::254', 'ipv6')
LINK_LOCAL.addAddress('100.100.100.200', 'ipv4')

/** Networks that are not of the internet: services there trust their neighbours. */
const PRIVATE = new BlockList()
for (const [network, prefix] of [
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['224.0.0.0', 3],
] as const)
  PRIVATE.addSubnet(network, prefix, 'ipv4')
for (const [network, prefix] of [
  ['::', 96],
  ['64:ff9b::', 96],
  ['64:ff9b:1::', 48],
  ['2001::', 32],
  ['2002::', 16],
  ['fc00::', 7],
  ['fec0::', 10],
  ['ff00::', 8],
] as const)
  PRIVATE.addSubnet(network, prefix, 'ipv6')

/** Null, or why nothing is sent to the address. All lists also know IPv4 addresses that are written as IPv6. */
function refusedAddress(address: string, host: string, policy: Policy): string | null {
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
  if (LINK_LOCAL.check(address, family)) return `${address} is an address of the machine’s own network.`
  if (LOOPBACK.check(address, family))
    return policy?.url?.disable_loopback === false
      ? null
      : `${address} is this machine itself. Set \`webhooks.url.disable_loopback\` to false to allow it.`
  if (!PRIVATE.check(address, family) || isAllowedDomain(host, policy?.url?.allowed_domains ?? [])) return null
  return `${address} is in a private network. Add ${host} to \`webhooks.url.allowed_domains\` to allow it.`
}

/** A path, and not one that names another server, as `//host` does. */
const isOwnPath = (url: string) => url.startsWith('/') && URL.parse(url, 'http://own.invalid')?.host === 'own.invalid'
const isAllowedDomain = (host: string, allowed: string[]) =>
  allowed.some(domain => (domain.startsWith('*.') ? host.endsWith(domain.slice(1)) : host === domain))

/** Refuses a URL that the policy of the file does not allow. A path is one of this server. */
export function checkWebhook(url: string, policy: Policy): void {
  const rules = policy?.url ?? {}
  const refuse = (reason: string) => new HttpError(422, `\`webhook\`: ${reason}`)
  if (rules.max_url_length && url.length > rules.max_url_length)
    throw refuse(`the URL is longer than ${rules.max_url_length} characters.`)
  if (isOwnPath(url)) {
    if (rules.disable_loopback) throw refuse('a path is one of this machine itself.')
    return
  }
  if (!URL.canParse(url)) throw refuse('it is not a URL.')
  const { protocol, hostname, port } = new URL(url)
  if (protocol !== 'https:' && (protocol !== 'http:' || rules.require_https))
    throw refuse(`the URL must begin with https://${rules.require_https ? '' : ' or http://'}.`)
  const host = hostname.replace(/^\[|\]$/g, '')
  const address = isIP(host) > 0 ? host : /^(?:.*\.)?localhost\.?$/.test(host) ? '127.0.0.1' : null
  const reason = address && refusedAddress(address, hostname, policy)
  if (reason) throw refuse(reason)
  if (rules.allowed_domains && !isAllowedDomain(hostname, rules.allowed_domains))
    throw refuse(`${hostname} is not among the allowed domains.`)
  const actual = port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)
  if (rules.allowed_ports && !rules.allowed_ports.includes(actual))
    throw refuse(`port ${actual} is not among the allowed ports.`)
}

/** Headers of the file, with variables whose names begin with its prefix in place of `${{ env.NAME }}`. */
function readHeaders(policy: Policy, environment: Environment): Record<string, string> {
  const prefix = policy?.env_prefix ?? 'LG_WEBHOOK_'
  return Object.fromEntries(
    Object.entries(policy?.headers ?? {}).map(([name, value]) => [
      name,
      value.replace(/\$\{\{ ?env\.(\w+) ?\}\}/g, (_, variable: string) =>
        variable.startsWith(prefix) ? (environment[variable] ?? '') : '',
      ),
    ]),
  )
}

/** A name may lead to another address than when it was checked: the one that is connected to counts. */
const lookupWith =
  (policy: Policy): LookupFunction =>
  (name, options, callback) => {
    findAddresses(name).then(
      found => {
        const reason = found.map(({ address }) => refusedAddress(address, name, policy)).find(Boolean)
        const [first] = found
        if (!first || reason)
          return callback(Object.assign(new Error(reason ?? `${name} has no address.`), { code: 'EACCES' }), '')
        if (options.all) callback(null, found)
        else callback(null, first.address, first.family)
      },
      error => callback(error, ''),
    )
  }

/** Returns the status. No redirect is followed. */
function post(url: URL, body: string, options: http.RequestOptions): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const whole = { method: 'POST', signal: AbortSignal.timeout(POST_MS), ...options }
  const onAnswer = (answer: http.IncomingMessage) => {
    resolve(answer.statusCode!)
    answer.destroy()
  }
  const out = url.protocol === 'https:' ? https.request(url, whole, onAnswer) : http.request(url, whole, onAnswer)
  out.on('error', reject)
  // Without a listener, it would be under way for ever, and the deployment would never sleep.
  out.on('upgrade', (_, socket) => {
    socket.destroy()
    resolve(101)
  })
  out.end(body)
  return promise
}

const POST_MS = 10_000
const ATTEMPTS = 3
/** With all attempts and the pauses between them, a webhook takes no longer. */
export const SENDING_SECONDS = 40
/** Receivers that do not answer must fill neither the memory nor the sockets of this copy. */
const MOST_UNDER_WAY = 1000
const MOST_BYTES_UNDER_WAY = 64 * 2 ** 20
const underWay = { count: 0, bytes: 0 }
export const webhooksUnderWay = (): number => underWay.count

type WebhookOptions = { policy: Policy; environment: Environment; ownUrl: string; hasAuth: boolean }

export async function sendWebhook({ run, end, endedAt }: EndedRun, options: WebhookOptions): Promise<void> {
  const { run_id, thread_id, assistant_id, metadata, kwargs, multitask_strategy, created_at, claimed_at } = run
  const about = JSON.stringify({
    run_id,
    thread_id,
    assistant_id,
    metadata,
    kwargs,
    multitask_strategy,
    status: end.status,
    created_at,
    run_started_at: claimed_at,
    run_ended_at: endedAt,
    webhook_sent_at: new Date(),
    ...(end.error !== null && { error: end.error }),
  })
  // The values are JSON already.
  const body = `${about.slice(0, -1)},"values":${end.state?.values ?? 'null'}}`
  const size = Buffer.byteLength(body)
  const isTooMuch = underWay.count >= MOST_UNDER_WAY || underWay.bytes + size > MOST_BYTES_UNDER_WAY
  if (isTooMuch && underWay.count > 0)
    return console.error(`webhook not sent run=${run_id}: others wait for their receivers`)
  underWay.count++
  underWay.bytes += size
  try {
    await deliver(run, body, options)
  } finally {
    underWay.count--
    underWay.bytes -= size
  }
}

async function deliver(
  { run_id, kwargs }: EndedRun['run'],
  body: string,
  { policy, environment, ownUrl, hasAuth }: WebhookOptions,
): Promise<void> {
  const target = kwargs.webhook as string
  const isOwn = isOwnPath(target)
  // With authentication of the application's own, the key would be that of another user.
  const key = isOwn && !hasAuth ? environment.GRAPHS_API_KEY : undefined
  const headers = {
    ...readHeaders(policy, environment),
    ...(key && { 'X-Api-Key': key }),
    'Content-Type': 'application/json',
    'Content-Length': `${Buffer.byteLength(body)}`,
  }
  for (let attempt = 1; ; attempt++) {
    try {
      // The policy may have changed since the run was created.
      checkWebhook(target, policy)
      const url = isOwn ? new URL(target, ownUrl) : new URL(target)
      const status = await post(url, body, { headers, ...(!isOwn && { lookup: lookupWith(policy) }) })
      if (status >= 300 && status < 400) console.error(`webhook failed run=${run_id}: it answered a redirect`)
      if (status < 500) return
      throw new Error(`answered ${status}`)
    } catch (error) {
      console.error(`webhook failed run=${run_id} attempt=${attempt}: ${(error as Error).message}`)
      if (attempt === ATTEMPTS || error instanceof HttpError) return
      await new Promise(resolve => setTimeout(resolve, 1000 * 4 ** (attempt - 1)))
    }
  }
}
