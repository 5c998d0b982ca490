// `slipway providers`: OAuth providers, discovered from the URL of an MCP server.
import type { Plan, Reply } from '../../client/client.ts'
import { ApiError } from '../../client/errors.ts'
import { usageError } from '../failure.ts'
import { findOne } from '../find.ts'
import { age } from '../output.ts'
import { readSecret } from '../secret-input.ts'
import { confirm, type Session } from '../session.ts'

export type DiscoverOptions = {
  id?: string
  name?: string
  clientId?: string
  clientSecret?: boolean
  clientSecretFile?: string
  scope?: string[]
  registration?: string
  create?: boolean
}
type Provider = Reply<'GET /v2/auth/providers'>[number]
type Preview = Plan<typeof DISCOVER>
type Fetched = Preview['trace'][number]

const DISCOVER = 'POST /v2/auth/providers/mcp-discover'

export async function listProviders({ client, out, signal }: Session): Promise<void> {
  const providers = await client.call('GET /v2/auth/providers', { signal })
  const columns = {
    id: (one: Provider) => one.provider_id,
    name: (one: Provider) => one.name,
    'mcp server': (one: Provider) => one.mcp_server_url,
    client: (one: Provider) => (one.is_dynamic_client ? 'dynamic' : one.client_id),
    created: (one: Provider) => age(one.created_at),
  }
  out.table(providers, columns, 'No OAuth providers. Create one with: slipway providers discover URL')
}

/** Registers nothing before the trace and the result of discovery are shown. */
export async function discoverProvider(session: Session, url: string, options: DiscoverOptions): Promise<void> {
  const { client, out, signal } = session
  const provider_id = options.id ?? suggestId(url)
  const { clientSecret: ask, clientSecretFile: file } = options
  const client_secret = await readSecret('Client secret', { ask, file, isInteractive: out.isInteractive })
  const body = {
    provider_id,
    name: options.name ?? provider_id,
    mcp_server_url: url,
    ...(options.scope && { scopes: options.scope }),
    // The server names the values that it takes.
    ...(options.registration && { registration: options.registration as 'auto' }),
    ...(options.clientId && { client_id: options.clientId }),
    ...(client_secret && { client_secret }),
  }
  const preview = await client.plan(DISCOVER, { body, signal }).catch((error: unknown) => {
    if (error instanceof ApiError) showTrace(session, error.trace as Fetched[])
    throw error
  })
  showTrace(session, preview.trace)
  showPreview(session, preview)
  const next = `slipway providers discover ${url} --id ${provider_id} --create`
  if (!options.create && !session.options.yes) {
    if (!out.isInteractive) return out.emit({ type: 'result', outcome: 'discovered', provider_id, next })
    await confirm(session, `Create the OAuth provider ${provider_id}?`, next)
  }
  const { id, client_id } = await client.call(DISCOVER, { body, signal })
  const text = () => `${out.paint('green', '✓')} Created the OAuth provider ${out.paint('bold', provider_id)}.`
  out.emit({ type: 'result', outcome: 'created', id, provider_id, client_id }, text)
}

/** The name of the host, without what says only that it is a server. */
function suggestId(url: string): string {
  if (!URL.canParse(url)) throw usageError(`${url} is not the URL of an MCP server.`)
  const labels = new URL(url).hostname.split('.').filter(label => !/^(mcp|api|www|\d*)$/.test(label))
  return (labels[0] ?? '').replace(/[^a-z0-9-]/g, '') || 'mcp'
}

function showTrace({ out }: Session, trace: Fetched[]): void {
  if (out.isMachine) {
    for (const fetched of trace) out.emit({ type: 'fetch', ...fetched })
    return
  }
  const columns = {
    step: (one: Fetched) => one.stage,
    request: (one: Fetched) => `${one.method} ${one.url}`,
    answer: (one: Fetched) => one.outcome ?? one.status,
    ms: (one: Fetched) => Math.round(one.ms),
  }
  out.table(trace, columns, 'No request was made.')
  out.text('')
}

const REGISTRATIONS = {
  given: 'your client',
  metadata_document: 'a client-ID metadata document',
  dynamic: 'dynamic registration',
}

function showPreview({ out }: Session, preview: Preview): void {
  const { trace, ...provider } = preview
  out.emit({ type: 'plan', ...provider })
  if (out.isMachine) return
  const { metadata, registration, redirect_uri, warnings } = preview
  const lines: [string, string | null][] = [
    ['Provider', `${preview.provider_id} (${preview.name})`],
    ['MCP server', preview.mcp_server_url],
    ['Issuer', metadata.issuer],
    ['Sign-in', metadata.auth_url],
    ['Tokens', metadata.token_url],
    ['Scopes', metadata.scopes.join(' ') || null],
    ['PKCE', metadata.uses_pkce ? 'S256' : 'none'],
    ['Client', `by ${REGISTRATIONS[registration]}`],
    ['Redirect', redirect_uri],
  ]
  for (const [name, value] of lines) if (value !== null) out.text(`${name.padEnd(11)} ${value}`)
  for (const { code, detail } of warnings) out.text(`Warning: ${code}: ${detail}`)
}

export async function deleteProvider(session: Session, wanted: string): Promise<void> {
  const { client, out, signal } = session
  const providers = await client.call('GET /v2/auth/providers', { signal })
  const names = (one: Provider) => [one.provider_id]
  const about = { kind: 'OAuth provider', code: 'provider_not_found', names, list: 'slipway providers list' }
  const { provider_id } = await findOne(providers, wanted, about)
  const next = `slipway providers delete ${provider_id} --yes`
  await confirm(session, `Delete the OAuth provider ${provider_id} and the connections of all its people?`, next)
  await client.call('DELETE /v2/auth/providers/{provider_id}', { params: { provider_id }, signal })
  out.emit({ type: 'result', outcome: 'deleted', provider_id }, () => `Deleted the OAuth provider ${provider_id}.`)
}
