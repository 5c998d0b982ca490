// `slipway providers discover`: creates an OAuth provider from the URL of an MCP server.
import type { Plan } from '../../client/client.ts'
import { ApiError } from '../../client/errors.ts'
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { collect } from '../flags.ts'
import { readSecret } from '../secret-input.ts'
import { confirm, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '<url>',
  summary: 'discover one from the URL of an MCP server',
  options: command =>
    command
      .option('--id <name>', 'its name in URLs. Default: from the host')
      .option('--name <name>', 'its name for people. Default: its id')
      .option('--scope <scope>', 'a scope to use instead of those of the server. Can be repeated', collect)
      .option('--client-id <id>', 'a client that you registered there')
      .option('--client-secret', 'ask for its secret, or read it from stdin')
      .option('--client-secret-file <file>', 'a file with its secret, or - for stdin')
      .option('--registration <how>', 'given, metadata_document or dynamic. Default: the first possible')
      .option('--create', 'create it without asking'),
}

type Flags = {
  id?: string
  name?: string
  clientId?: string
  clientSecret?: boolean
  clientSecretFile?: string
  scope?: string[]
  registration?: string
  create?: boolean
}
type Preview = Plan<typeof DISCOVER>
type Fetched = Preview['trace'][number]

const DISCOVER = 'POST /v2/auth/providers/mcp-discover'

/** Registers nothing before the trace and the result of discovery are shown. */
export async function run(session: Session, options: Flags, [url]: [string]): Promise<void> {
  const { client, out, signal } = session
  const provider_id = options.id ?? suggestId(url)
  const { clientSecret: ask, clientSecretFile: file } = options
  const client_secret = await readSecret('Client secret', { ask, file, isInteractive: out.isInteractive })
  const body = {
    provider_id,
    name: options.name ?? provider_id,
    mcp_server_url: url,
    ...(options.scope && { scopes: options.scope }),
    // The server validates it, and its error lists the values.
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

/** The first label of the host that is not generic, such as `linear` of mcp.linear.app. */
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
