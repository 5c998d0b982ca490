// Requests to the servers of models: guarded, without redirects, within limits of time and size.
import type { Config } from '../env.ts'
import type { Ctx } from '../kernel/context.ts'
import { fail } from '../kernel/errors.ts'
import { createGuardedClient, type FetchPolicy, type GuardedClient } from '../kernel/guarded-fetch.ts'

const REDIRECT_STATUSES = [301, 302, 303, 307, 308]
/** The SDKs of both providers repeat a 502 unless they are told not to. */
const NO_RETRY = { 'x-should-retry': 'false' }

const policyOf = (config: Config): FetchPolicy => ({
  ...config,
  foreignFetch: config.modelFetch ?? config.foreignFetch,
  allowPrivate: config.modelPrivateAddresses,
})

/** For the token endpoint of a configuration: a few small requests. */
export const createTokenClient = ({ config, origin }: Pick<Ctx, 'config' | 'origin'>): GuardedClient =>
  createGuardedClient(policyOf(config), origin)

export async function fetchModel(ctx: Pick<Ctx, 'config' | 'origin'>, url: URL, init: RequestInit): Promise<Response> {
  const { idleMs, totalMs, responseBytes } = ctx.config.modelCalls
  const limits = { fetchMs: totalMs, totalMs, idleMs, fetches: 1, bytes: responseBytes, returnsRedirects: true }
  const client = createGuardedClient(policyOf(ctx.config), ctx.origin, limits)
  client.stage('model')
  const response = await client.fetch(url, init)
  if (!REDIRECT_STATUSES.includes(response.status)) return response
  await response.body?.cancel()
  throw fail('upstream_redirected', { about: `model: ${url.host}`, headers: NO_RETRY })
}
