// The address of a drain as the control plane judges it, and its requests there, through the guarded fetch.

import type { HostServices } from '../../kernel/http/context.ts'
import { Failure, fail } from '../../kernel/http/errors.ts'
import { createGuardedClient, type FetchPolicy, requireAllowedUrl } from '../../kernel/http/guarded-fetch.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import { parseRetryAfter } from '../../kernel/http/retry-after.ts'
import { type EncodedBatch, readRejected } from '../../protocol/drain-encoding.ts'
import type { DrainKind } from '../../protocol/drains.schema.ts'

const TIMEOUT_MS = 20_000
const ANSWER_BYTES = 64 * 1024

type Config = FetchPolicy['config'] & { drainPrivateAddresses: boolean }
const policyOf = <C extends Config>(config: C) => ({ ...config, allowPrivate: config.drainPrivateAddresses })

export const isSyslogUrl = (text: string): boolean => /^(tls|tcp):/i.test(text)

/** Agents judge it again, by the networks that their operator allows. */
export function requireDrainUrl(config: Config, origin: string, kind: DrainKind, text: string): void {
  if (kind !== 'syslog') {
    requireAllowedUrl(policyOf(config), origin, text)
    return
  }
  const match = /^(tls|tcp):\/\/([^/?#]+)\/?$/.exec(text)
  if (!match) throw fail('blocked_url', { about: 'the address of syslog is not as `tls://logs.example.com:6514`' })
  const [, scheme, host] = match
  if (scheme === 'tcp' && !config.drainPrivateAddresses)
    throw fail('blocked_url', { about: 'syslog over plain TCP shows every line on its way. Use `tls://`' })
  requireAllowedUrl(policyOf(config), origin, `${scheme === 'tcp' ? 'http' : 'https'}://${host}/`)
}

/** `rejected`: records of the batch that the receiver left out. */
export type Attempt = {
  status: number | null
  error: string | null
  rejected: number
  retryAfter: number
  duration_ms: number
}

export async function postBatch(
  { config, platform }: Pick<HostServices, 'config' | 'platform'>,
  { url, contentType, body }: EncodedBatch,
  headers: Record<string, string>,
  compression: 'gzip' | 'none',
): Promise<Attempt> {
  const policy = { config: policyOf(config), platform: { foreignFetch: platform.drainFetch ?? platform.foreignFetch } }
  const limits = { fetchMs: TIMEOUT_MS, totalMs: TIMEOUT_MS, fetches: 1, bytes: ANSWER_BYTES }
  const client = createGuardedClient(policy, configuredOrigin(config), limits)
  client.stage('drain')
  const started = Date.now()
  const attempt = { status: null, error: null, rejected: 0, retryAfter: 0 }
  try {
    const isCompressed = compression === 'gzip'
    const response = await client.fetch(url, {
      method: 'POST',
      headers: { ...headers, 'Content-Type': contentType, ...(isCompressed && { 'Content-Encoding': 'gzip' }) },
      body: isCompressed ? await gzip(body) : body,
    })
    const { ok, status } = response
    // The batch is taken, whatever becomes of the answer.
    const rejected = ok ? readRejected(await response.text().catch(() => '')) : 0
    if (!ok) await response.body?.cancel()
    const retryAfter = ok ? 0 : parseRetryAfter(response.headers.get('Retry-After'), started)
    return { status, error: ok ? null : 'refused', rejected, retryAfter, duration_ms: Date.now() - started }
  } catch (error) {
    const code = error instanceof Failure ? error.code : 'internal'
    return { ...attempt, error: code, duration_ms: Date.now() - started }
  }
}

const gzip = async (text: string): Promise<ArrayBuffer> =>
  new Response(new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'))).arrayBuffer()
