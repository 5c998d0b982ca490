// What crosses the wire about OAuth providers.
import * as z from 'zod'
import { Name } from '../access/schema.ts'
import { arrayOf, boundedText, OAuthFetch, parseBoolean, Uuid } from '../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })
/** In a patch, null means the same as left out: keep. */
const optionalMember = <S extends z.ZodType>(schema: S) => schema.nullish()

export const registrations = ['given', 'metadata_document', 'dynamic'] as const
const healthStates = ['healthy', 'degraded', 'as_changed', 'unreachable', 'client_expired'] as const
const authMethods = ['client_secret_post', 'client_secret_basic', 'none'] as const

// ---- members

/** It stands in addresses, also in that to which people come back. */
const ProviderId = boundedText(63)
  .regex(/^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$/, {
    error: 'needs to be 1 to 63 lower-case letters, digits, or inner hyphens and underscores',
  })
  .meta({ description: 'Its name in addresses, unique in the organisation. It cannot be changed.' })

/** An id is never someone's name, since whoever names a provider may use either; nor is the word of a path. */
const NewProviderId = ProviderId.refine(id => !Uuid.safeParse(id).success && id !== 'mcp-discover', {
  error: 'needs to be no UUID, and not mcp-discover',
})

const printableText = (longest: number) =>
  boundedText(longest).regex(/^[\x20-\x7e]+$/, { error: `needs 1 to ${longest} ASCII characters` })
const ClientId = printableText(2048)
const ClientSecret = printableText(4096).meta({ description: 'Stored sealed, and never told again.' })

export const Scope = boundedText(256).regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, {
  error: 'needs to be one scope, without spaces, quotes and backslashes',
})
/** A set: naming one twice is naming it once. */
const Scopes = arrayOf(Scope, 100).overwrite(names => [...new Set(names)])

const Endpoint = boundedText(2048).refine(url => /^https?:\/\//i.test(url) && URL.canParse(url) && !url.includes('#'), {
  error: 'needs to be an https address without a fragment',
})

const providerTypes = ['microsoft', 'salesforce', 'slack'] as const

// ---- answers

const providerMembers = {
  id: Uuid,
  organization_id: Uuid,
  provider_id: z.string(),
  name: z.string(),
  client_id: z.string(),
  auth_url: z.string().meta({ description: 'The authorization endpoint.' }),
  token_url: z.string().meta({ description: 'The token endpoint.' }),
  uses_pkce: z.boolean(),
  code_challenge_method: z.literal('S256').nullable(),
  provider_type: z
    .enum(['mcp', ...providerTypes])
    .nullable()
    .meta({ description: '`mcp` when it was discovered.' }),
  mcp_server_url: z.string().nullable(),
  token_endpoint_auth_method: z.string().default('client_secret_post'),
  is_dynamic_client: z.boolean().default(false).meta({ description: 'Its client was made by dynamic registration.' }),
  created_at: Time,
  updated_at: Time,
}
export const OAuthProvider = z
  .object(providerMembers)
  .meta({ id: 'OAuthProvider', description: 'Where people of the organisation connect their accounts.' })
export type OAuthProvider = z.output<typeof OAuthProvider>
export const OAuthProviders = z.array(OAuthProvider).meta({ description: 'All of the organisation, newest first.' })

export const Warning = z
  .object({ code: z.string(), detail: z.string() })
  .meta({ id: 'OAuthWarning', description: 'Something remarkable that a server says or does.' })

const discoveryMembers = {
  warnings: z.array(Warning),
  trace: z.array(OAuthFetch),
}
export const OAuthProviderDetails = z
  .object({
    ...providerMembers,
    scopes: z.array(z.string()).meta({ description: 'Asked for when a flow names none.' }),
    redirect_uri: z.string().meta({ description: 'Where the server sends people back to; it needs to know it.' }),
    registration: z.enum(registrations).meta({ description: 'How its client came to be.' }),
    revocation_url: z.string().nullable(),
    issuer: z.string().nullable().meta({ description: 'As the authorization server calls itself.' }),
    client_secret_expires_at: Time.nullable(),
    health: z.enum(healthStates),
    health_detail: z.string().nullable(),
    checked_at: Time,
    made_by_workspace: Uuid.nullable().meta({
      description:
        'The workspace that may change it while no other workspace is connected through it. Every other change needs `organization:manage-providers`.',
    }),
    warnings: discoveryMembers.warnings
      .nullable()
      .meta({ description: 'Of the last check; null without `deployments:update`.' }),
    trace: discoveryMembers.trace.nullable().meta({
      description: 'Every fetch of the last check; null without `deployments:update`.',
    }),
  })
  .meta({ id: 'OAuthProviderDetails', description: 'A provider with what is known of its servers.' })
export type OAuthProviderDetails = z.output<typeof OAuthProviderDetails>

export const DiscoveryPreview = z
  .object({
    provider_id: z.string(),
    name: z.string(),
    mcp_server_url: z.string().meta({ description: 'As it would be kept.' }),
    metadata: z
      .object({
        issuer: z.string().nullable(),
        resource: z.string().nullable(),
        auth_url: z.string(),
        token_url: z.string(),
        registration_url: z.string().nullable(),
        revocation_url: z.string().nullable(),
        token_endpoint_auth_methods: z.array(z.string()),
        supports_metadata_document: z.boolean(),
        scopes: z.array(z.string()),
        uses_pkce: z.boolean(),
        code_challenge_method: z.literal('S256').nullable(),
      })
      .meta({ description: 'What the servers say.' }),
    registration: z.enum(registrations).meta({ description: 'How the client would come to be.' }),
    redirect_uri: z
      .string()
      .nullable()
      .meta({ description: 'Where people would come back to; null where it is made with the provider.' }),
    ...discoveryMembers,
  })
  .meta({
    id: 'OAuthDiscovery',
    description: 'What would be made of an MCP server. Nothing was registered or written.',
  })
export type DiscoveryPreview = z.output<typeof DiscoveryPreview>

// ---- requests

export const ProviderRef = z.object({ provider_id: ProviderId })

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
/** Beside faults of single members too: an answer names every fault at once. */
const alwaysCheck = { when: ({ value }: { value: unknown }) => isObject(value) }

type ClientAuthInput = { client_secret?: unknown; token_endpoint_auth_method?: unknown }
const checkSecret = (
  { client_secret, token_endpoint_auth_method: method }: ClientAuthInput,
  check: z.RefinementCtx,
) => {
  if (method == null || (method === 'none') === (client_secret == null)) return
  const message = method === 'none' ? 'has no place with `none`' : `is needed for \`${String(method)}\``
  check.addIssue({ code: 'custom', path: ['client_secret'], message })
}

const AuthMethod = z
  .enum(authMethods)
  .meta({ description: 'How the client proves itself; `client_secret_post`, or `none` without a secret.' })
const Pkce = z.boolean().meta({ description: 'With S256. Leave it out unless the server refuses it.' })

export const NewProvider = z
  .object({
    provider_id: NewProviderId,
    name: Name,
    client_id: ClientId,
    client_secret: optionalMember(ClientSecret),
    auth_url: Endpoint,
    token_url: Endpoint,
    revocation_url: optionalMember(Endpoint),
    scopes: Scopes.default([]).meta({ description: 'Asked for when a flow names none.' }),
    uses_pkce: Pkce.default(true),
    code_challenge_method: optionalMember(z.literal('S256')),
    token_endpoint_auth_method: optionalMember(AuthMethod),
    provider_type: optionalMember(z.enum(providerTypes)),
  })
  .superRefine(checkSecret, alwaysCheck)
  .meta({
    id: 'NewOAuthProvider',
    description:
      'A provider whose client was registered by hand, with `/v2/auth/callback/{provider_id}` of this installation.',
    example: {
      provider_id: 'github',
      name: 'GitHub',
      client_id: 'Iv1.8a61f9b3a7aba766',
      client_secret: 'a secret of theirs',
      auth_url: 'https://github.com/login/oauth/authorize',
      token_url: 'https://github.com/login/oauth/access_token',
      scopes: ['read:user'],
    },
  })
export type NewProvider = z.output<typeof NewProvider>

type ClientInput = { client_id?: unknown; client_secret?: unknown; registration?: unknown }
const checkClient = ({ client_id, client_secret, registration }: ClientInput, check: z.RefinementCtx) => {
  const fault = (member: string, message: string) => check.addIssue({ code: 'custom', path: [member], message })
  if (client_secret != null && client_id == null) fault('client_id', 'is needed with a `client_secret`')
  if (registration === 'given' && client_id == null) fault('client_id', 'is needed for `given`')
  if (client_id != null && registration !== 'auto' && registration !== 'given' && registration !== undefined)
    fault('registration', 'needs to be `given` or left out with a `client_id`')
}

export const McpServer = z
  .object({
    provider_id: NewProviderId,
    name: Name,
    mcp_server_url: z.string().min(1).max(2048).meta({ description: 'The address of an MCP server that wants OAuth.' }),
    client_id: optionalMember(ClientId).meta({ description: 'Of a client that was registered by hand.' }),
    client_secret: optionalMember(ClientSecret),
    scopes: optionalMember(Scopes).meta({ description: 'Instead of those that the server asks for.' }),
    registration: z
      .enum(['auto', ...registrations])
      .default('auto')
      .meta({ description: 'How the client comes to be; `auto` takes the first that the server offers.' }),
  })
  .superRefine(checkClient, alwaysCheck)
  .meta({
    id: 'McpServer',
    description: 'An MCP server, from whose address everything else is found out.',
    example: { provider_id: 'issues', name: 'Issues', mcp_server_url: 'https://mcp.example.com/mcp' },
  })
export type McpServer = z.output<typeof McpServer>

export const DiscoverQuery = z.object({
  dry_run: z
    .preprocess(parseBoolean, z.boolean().default(false))
    .meta({ description: 'Answers with what it would make, registers nothing and writes nothing.' }),
})

export const ProviderPatch = z
  .object({
    name: optionalMember(Name),
    client_id: optionalMember(ClientId).meta({ description: 'Only of a client that was given.' }),
    client_secret: optionalMember(ClientSecret),
    token_endpoint_auth_method: optionalMember(AuthMethod),
    scopes: optionalMember(Scopes),
    auth_url: optionalMember(Endpoint).meta({ description: 'Only of a provider made by hand, as those that follow.' }),
    token_url: optionalMember(Endpoint),
    revocation_url: optionalMember(Endpoint),
    uses_pkce: optionalMember(Pkce),
    provider_id: optionalMember(z.string()).meta({ description: 'It cannot be changed.' }),
    provider_type: optionalMember(z.string()).meta({ description: 'It cannot be changed.' }),
    mcp_server_url: optionalMember(z.string()).meta({ description: 'It cannot be changed.' }),
  })
  .superRefine(checkSecret, alwaysCheck)
  // The address has a member of that name too, and wins.
  .transform(({ provider_id, ...patch }) => ({ ...patch, renamed: provider_id }))
  .meta({
    id: 'OAuthProviderPatch',
    description: 'What is left out or null stays as it is.',
    example: { name: 'GitHub Enterprise', scopes: ['read:user', 'repo'] },
  })
export type ProviderPatch = z.output<typeof ProviderPatch>
