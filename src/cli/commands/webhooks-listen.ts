// `slipway webhooks listen`: sends the events of the workspace to a port of this machine, as a webhook would.
import { ApiError } from '../../client/errors.ts'
import { backoffDelay, pause } from '../../client/retry.ts'
import { matchesGlob, matchMany, matchOne } from '../../protocol/glob.ts'
import { buildBody } from '../../protocol/webhook-body.ts'
import { messageHeaders, newSecret, signBySecret } from '../../protocol/webhook-signing.ts'
import type { Declaration } from '../declaration.ts'
import { describeSubject, type Event } from '../event-lines.ts'
import { CommandFailure, EXIT, shellWord, usageError } from '../failure.ts'
import { readSecret } from '../secret-input.ts'
import type { Session } from '../session.ts'
import { parseCount } from '../times.ts'

export const declaration: Declaration = {
  summary: 'forward events to a port of this machine',
  options: command =>
    command
      .requiredOption('--forward <url>', 'where to, such as http://localhost:3000/hooks, or a port')
      .option('--type <types>', 'only these types, such as deployment.*, separated by commas')
      .option('--after <number>', 'begin after the event with this number. Default: the newest')
      .option('--secret-file <file>', 'sign with the secret in this file, or - for stdin. Default: a new one')
      .option('--allow-remote', 'allow an address that is not on this machine'),
}

type Flags = {
  forward: string
  type?: string
  after?: string
  secretFile?: string
  allowRemote?: boolean
}
type Target = { url: string; secret: string }
type Outcome = { status: number } | { error: string }

/** The timeout of a webhook. */
const TIMEOUT_MS = 15_000
const RETRY = { attempts: Number.POSITIVE_INFINITY, firstDelayMs: 250, maxDelayMs: 5000 }
const TYPE_PATTERN = /^[a-z_*]+(\.[a-z_*]+)*$/
const LOOPBACK = /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|\[::1\])$/

export async function run(session: Session, options: Flags): Promise<void> {
  const { client, out, signal } = session
  const url = parseTarget(options)
  const isWanted = parseTypes(options.type)
  const after =
    options.after === undefined ? undefined : parseCount(options.after, '--after', Number.MAX_SAFE_INTEGER, 0)
  const { secretFile: file } = options
  const secret = (await readSecret('Secret', { file, isInteractive: out.isInteractive })) ?? newSecret()
  const start = after ?? (await readNewest(session))
  const types = options.type ?? '*'
  out.emit({ type: 'listening', forward: url, types, after: start, secret }, () =>
    [`Forwarding ${types} to ${out.paint('bold', url)}. Ctrl-C ends it.`, `Secret  ${secret}`].join('\n'),
  )
  const onState = ({ state }: { state: string }) => {
    if (state === 'reconnecting') out.note('The stream was cut. Reconnecting.')
  }
  const query = { after: start }
  let last = start
  try {
    for await (const item of client.stream('GET /v2/events/stream', { query, signal, onState })) {
      if (item.event !== 'message') out.note('Some events are no longer kept.')
      else if (isWanted(item.data.type)) await deliver(session, { url, secret }, item.data)
      if (item.event === 'message') last = item.data.number
    }
  } catch (error) {
    if (!signal.aborted) throw error
    const onlyTypes = options.type === undefined ? '' : ` --type '${options.type}'`
    const next = `slipway webhooks listen --forward ${shellWord(options.forward)}${onlyTypes} --after ${last}`
    throw new CommandFailure(EXIT.interrupted, 'interrupted', `Stopped after event ${last}.`, next)
  }
}

/** Events may hold names and addresses, so they leave this machine only with --allow-remote. */
function parseTarget({ forward, allowRemote }: Flags): string {
  const text = /^\d{1,5}$/.test(forward) ? `http://localhost:${forward}` : forward
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^https?:$/.test(url.protocol))
    throw usageError(`--forward ${forward} is not a port or a URL, such as http://localhost:3000/hooks.`)
  if (url.username || url.password) throw usageError('--forward has a user name or password in it, which is not sent.')
  if (allowRemote || LOOPBACK.test(url.hostname)) return url.href
  throw usageError(`${url.hostname} is not this machine. To send events there, add --allow-remote.`)
}

function parseTypes(text: string | undefined): (type: string) => boolean {
  if (text === undefined) return () => true
  const globs = text.split(',')
  for (const glob of globs)
    if (!TYPE_PATTERN.test(glob)) throw usageError(`--type ${glob} is not a type of events, such as deployment.*`)
  const patterns = globs.map(glob =>
    [...glob].map(wanted => (wanted === '*' ? matchMany<string>(() => true) : matchOne(found => found === wanted))),
  )
  return type => patterns.some(pattern => matchesGlob(pattern, [...type]))
}

async function readNewest({ client, signal }: Session): Promise<number> {
  const query = { order: 'desc' as const, limit: 1 }
  return (await client.call('GET /v2/events', { query, signal })).resources[0]?.number ?? 0
}

/** An answer ends it, whatever its status. Without one the event is sent again, so that a receiver can be restarted. */
async function deliver(session: Session, { url, secret }: Target, event: Event): Promise<void> {
  const { client, out, signal } = session
  const body = buildBody(client.url, event, await readDeployment(session, event))
  for (let attempt = 1; ; attempt++) {
    const message = { id: event.id, timestamp: Math.floor(Date.now() / 1000), body }
    const headers = messageHeaders(message, [await signBySecret(secret, message)])
    const started = performance.now()
    const outcome = await post(url, headers, body, signal)
    report(session, event, outcome, Math.round(performance.now() - started))
    if ('status' in outcome || outcome.error === 'timeout') return
    const delayMs = backoffDelay(attempt, RETRY)
    out.note(`Nothing answers at ${url} (${outcome.error}). Trying again in ${(delayMs / 1000).toFixed(1)} s.`)
    await pause(delayMs, signal)
  }
}

async function post(url: string, headers: Record<string, string>, body: string, signal: AbortSignal): Promise<Outcome> {
  const ends = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)])
  try {
    const response = await fetch(url, { method: 'POST', headers, body, redirect: 'manual', signal: ends })
    await response.body?.cancel()
    return { status: response.status }
  } catch (error) {
    signal.throwIfAborted()
    const { name, message, cause } = error as Error & { cause?: { code?: string; message?: string } }
    return { error: name === 'TimeoutError' ? 'timeout' : (cause?.code ?? cause?.message ?? message) }
  }
}

function report({ out }: Session, event: Event, outcome: Outcome, ms: number): void {
  const { id, number, type, subject } = event
  out.emit({ type: 'delivery', event: type, id, number, subject, ...outcome, ms }, () => {
    const isAccepted = 'status' in outcome && outcome.status >= 200 && outcome.status < 300
    const result = 'status' in outcome ? String(outcome.status) : outcome.error
    const number = out.paint('dim', `#${event.number}`)
    return `${number} ${type} ${describeSubject(event)} ${out.paint(isAccepted ? 'green' : 'red', result)} ${ms} ms`
  })
}

/** The deployment in the body of a webhook. Null if it is deleted, or if the key may not read it. */
async function readDeployment({ client, signal }: Session, { type, subject, data }: Event) {
  const isAbout = type.startsWith('deployment.') || type.startsWith('preview_policy.')
  const deployment_id = isAbout ? subject.id : (data as { deployment_id?: unknown }).deployment_id
  if (typeof deployment_id !== 'string') return null
  try {
    const params = { deployment_id }
    const { id, name, status, url } = await client.call('GET /v2/deployments/{deployment_id}', { params, signal })
    return { id, name, status, url }
  } catch (error) {
    if (error instanceof ApiError && [403, 404].includes(error.status)) return null
    throw error
  }
}
