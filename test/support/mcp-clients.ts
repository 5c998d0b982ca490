// The clients of the SDKs of MCP, of both protocol eras, over HTTP and over `slipway mcp`.
import { auth, Client, StreamableHTTPClientTransport, type Transport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { auth as earlierAuth } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client as EarlierClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as EarlierStdio } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as EarlierHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

/** A URL with headers, or a command to start. */
export type OuterServer =
  | { url: string; headers: Record<string, string>; fetch?: typeof fetch }
  | { command: string; args: string[]; env: Record<string, string>; cwd: string }
/** A server, or the proxy of `slipway mcp` in this process. */
export type Server = OuterServer | { transport: Transport }

/** Has a person approve the client at this address, and returns where the browser goes then. */
export type SignIn = (authorizeUrl: string) => Promise<string>

/** The answer of a person when the server asks for confirmation. */
export type Answer = 'accept' | 'decline'

// biome-ignore lint/suspicious/noExplicitAny: results are read member by member
type ToolResult = { content: any[]; structuredContent: any; isError: boolean }

export type ConnectedClient = {
  protocol: string
  instructions: string
  toolNames(): Promise<string[]>
  call(name: string, args?: Record<string, unknown>): Promise<ToolResult>
  promptText(name: string, args: Record<string, string>): Promise<string>
  resourceText(uri: string): Promise<string>
  complete(prefix: string): Promise<string[]>
  /** The questions that the person was asked. */
  questions: string[]
  close(): Promise<void>
}

const INFO = { name: 'slipway-trial', version: '1.0.0' }
const ERAS = {
  'client 2.4.0, 2026-07-28': '2026-07-28',
  'client 2.4.0, 2025': undefined,
  'sdk 1.32.2, 2025': undefined,
}
export type ClientName = keyof typeof ERAS
export const CLIENTS = Object.keys(ERAS) as ClientName[]

/** A server without sessions can ask such a client. */
export const canBeAsked = (name: ClientName): boolean => ERAS[name] !== undefined

export async function connect(name: ClientName, server: Server, answer: () => Answer): Promise<ConnectedClient> {
  const questions: string[] = []
  const reply = (message: string) => {
    questions.push(message)
    const action = answer()
    return action === 'accept' ? { action, content: {} } : { action }
  }
  const isEarlier = name === 'sdk 1.32.2, 2025'
  const transport = openTransport(server, isEarlier)
  if (isEarlier) {
    const client = new EarlierClient(INFO, { capabilities: {} })
    await client.connect(transport as never)
    const { protocolVersion = '2025' } = transport as { protocolVersion?: string }
    return { ...toConnected(client as never, questions), protocol: protocolVersion }
  }
  const pinned = ERAS[name]
  const client = new Client(INFO, {
    capabilities: pinned ? { elicitation: { form: {} } } : {},
    ...(pinned && { versionNegotiation: { mode: { pin: pinned } } }),
  })
  if (pinned) client.setRequestHandler('elicitation/create', ({ params }) => reply(params.message) as never)
  await client.connect(transport)
  return { ...toConnected(client, questions), protocol: client.getNegotiatedProtocolVersion() ?? '?' }
}

const REDIRECT_URI = 'http://127.0.0.1:8976/callback'

/** Keeps the registration and tokens of a client, and sends its person to approve. */
function makeAuthProvider(signIn: SignIn) {
  // biome-ignore lint/suspicious/noExplicitAny: both SDKs have types of their own for them
  const kept: Record<string, any> = {}
  const keep = (name: string) => (value: unknown) => {
    kept[name] = value
  }
  return {
    kept,
    redirectUrl: REDIRECT_URI,
    clientMetadata: { client_name: 'Slipway trial', redirect_uris: [REDIRECT_URI], token_endpoint_auth_method: 'none' },
    state: () => 'state-of-the-client',
    clientInformation: () => kept.client,
    saveClientInformation: keep('client'),
    tokens: () => kept.tokens,
    saveTokens: keep('tokens'),
    discoveryState: () => kept.discovery,
    saveDiscoveryState: keep('discovery'),
    codeVerifier: () => kept.verifier,
    saveCodeVerifier: keep('verifier'),
    redirectToAuthorization: async (url: URL) => keep('answer')(new URL(await signIn(url.href))),
  }
}

/** Signs in by OAuth as a client does that is refused with 401, and returns its tokens. */
export async function obtainTokens(name: ClientName, url: string, signIn: SignIn, fetch?: typeof globalThis.fetch) {
  const provider = makeAuthProvider(signIn)
  const isEarlier = name === 'sdk 1.32.2, 2025'
  const options = { serverUrl: url, ...(fetch && { fetchFn: fetch }) }
  const run = (more: object) =>
    isEarlier
      ? earlierAuth(provider as never, { ...options, ...more })
      : auth(provider as never, { ...options, ...more } as never)
  if ((await run({})) !== 'REDIRECT') throw new Error('The client did not send its person to the authorization page.')
  const { searchParams } = provider.kept.answer as URL
  if (searchParams.get('state') !== provider.state()) throw new Error('The state came back changed.')
  const [authorizationCode, iss] = ['code', 'iss'].map(member => searchParams.get(member) ?? undefined)
  await run({ authorizationCode, iss })
  return {
    tokens: () => provider.kept.tokens as { access_token: string; refresh_token: string; expires_in: number },
    client: provider.kept.client as { client_id: string },
    /** Uses its refresh token. */
    refresh: () => run({}),
  }
}

function openTransport(server: Server, isEarlier: boolean): Transport {
  if ('transport' in server) return server.transport
  if ('url' in server) {
    const { url, headers, fetch } = server
    const options = { requestInit: { headers }, ...(fetch && { fetch }) }
    const Http = isEarlier ? EarlierHttp : StreamableHTTPClientTransport
    return new Http(new URL(url), options) as Transport
  }
  const Stdio = isEarlier ? EarlierStdio : StdioClientTransport
  return new Stdio({ ...server, stderr: 'ignore' }) as Transport
}

function toConnected(client: Client, questions: string[]): Omit<ConnectedClient, 'protocol'> {
  return {
    questions,
    instructions: client.getInstructions() ?? '',
    toolNames: async () => (await client.listTools()).tools.map(({ name }) => name),
    async call(name, args = {}) {
      const { content, structuredContent, isError = false } = await client.callTool({ name, arguments: args })
      return { content, structuredContent, isError: isError === true } as ToolResult
    },
    async promptText(name, args) {
      const { messages } = await client.getPrompt({ name, arguments: args })
      return messages.map(({ content }) => (content.type === 'text' ? content.text : '')).join('\n')
    },
    async resourceText(uri) {
      const [first] = (await client.readResource({ uri })).contents
      return (first as { text: string }).text
    },
    async complete(prefix) {
      const ref = { type: 'ref/prompt' as const, name: 'explain_failed_revision' }
      return (await client.complete({ ref, argument: { name: 'deployment', value: prefix } })).completion.values
    },
    close: () => client.close(),
  }
}
