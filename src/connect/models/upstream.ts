// Requests to the servers of models: guarded, without redirects, within limits of time and size.
import type { Ctx, HostServices } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { createGuardedClient, type FetchPolicy, type GuardedClient } from '../../kernel/http/guarded-fetch.ts'

const REDIRECT_STATUSES = [301, 302, 303, 307, 308]
/** The SDKs of both providers repeat a 502 unless they are told not to. */
const NO_RETRY = { 'x-should-retry': 'false' }

type ModelClient = HostServices & Pick<Ctx, 'origin'>

const policyOf = ({ config, platform }: ModelClient): FetchPolicy => ({
  config: { ...config, allowPrivate: config.modelPrivateAddresses },
  platform: { foreignFetch: platform.modelFetch ?? platform.foreignFetch },
})

/** Calls the token endpoint of a configuration: a few small requests. */
export const createTokenClient = (ctx: ModelClient): GuardedClient => createGuardedClient(policyOf(ctx), ctx.origin)

export async function fetchModel(ctx: ModelClient, url: URL, init: RequestInit): Promise<Response> {
  const { idleMs, totalMs, responseBytes } = ctx.config.modelCalls
  const limits = { fetchMs: totalMs, totalMs, idleMs, fetches: 1, bytes: responseBytes, returnsRedirects: true }
  const client = createGuardedClient(policyOf(ctx), ctx.origin, limits)
  client.stage('model')
  const response = await client.fetch(url, init)
  if (!REDIRECT_STATUSES.includes(response.status)) return response
  await response.body?.cancel()
  throw fail('upstream_redirected', { about: `model: ${url.host}`, headers: NO_RETRY })
}
