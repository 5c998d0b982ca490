// Schemas of OAuth providers.
import * as z from 'zod'
import { Name } from '../../people/access/schema.ts'
import { all, hasAll, hasNone, implies, isAbsentOrAnyOf, isAnyOf } from '../../protocol/conditions.ts'
import {
  arrayOf,
  boundedText,
  OAuthFetch,
  Owner,
  OwnerPatch,
  ownedBy,
  parseBoolean,
  SecretFingerprint,
  Uuid,
} from '../../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })
/** In a patch, null keeps the stored value, as an absent member does. */
const optionalMember = <S extends z.ZodType>(schema: S) => schema.nullish()

const registrations = ['given', 'metadata_document', 'dynamic'] as const
const healthStates = ['healthy', 'degraded', 'as_changed', 'unreachable', 'client_expired'] as const
const authMethods = ['client_secret_post', 'client_secret_basic', 'none'] as const

const ProviderId = boundedText(63)
  .regex(/^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$/, {
    error: 'must be 1 to 63 lower-case letters, digits, hyphens and underscores, without - and _ at its ends',
  })
  .meta({ description: 'The name of the provider in URLs, unique in the organization. It cannot be changed.' })

/** Not a UUID, because requests accept a `provider_id` or an `id`; and not a path segment of the routes. */
const NewProviderId = ProviderId.refine(id => !Uuid.safeParse(id).success && id !== 'mcp-discover', {
  error: 'must not be a UUID or mcp-discover',
})

const printableText = (maxLength: number) =>
  boundedText(maxLength).regex(/^[\x20-\x7e]+$/, { error: `must be 1 to ${maxLength} printable ASCII characters` })
const ClientId = printableText(2048)
const ClientSecret = printableText(4096).meta({ description: 'Stored encrypted, and never returned.' })

export const Scope = boundedText(256).regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, {
  error: 'must be one scope, without spaces, quotes and backslashes',
})
const Scopes = arrayOf(Scope, 100).overwrite(scopes => [...new Set(scopes)])

const Endpoint = boundedText(2048)
  .refine(url => /^https?:\/\//i.test(url) && URL.canParse(url) && !url.includes('#'), {
    error: 'must be an https URL without a fragment',
  })
  .meta({ format: 'uri', pattern: '^https?://[^#]*$' })

const providerTypes = ['microsoft', 'salesforce', 'slack'] as const

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
    .meta({ description: '`mcp` if the provider was discovered from an MCP server.' }),
  mcp_server_url: z.string().nullable(),
  token_endpoint_auth_method: z.string().default('client_secret_post'),
  is_dynamic_client: z
    .boolean()
    .default(false)
    .meta({ description: 'Whether the client was registered dynamically (RFC 7591).' }),
  created_at: Time,
  updated_at: Time,
}
export const OAuthProvider = z
  .object(providerMembers)
  .meta({ id: 'OAuthProvider', description: 'A server where people of the organization connect their accounts.' })
export type OAuthProvider = z.output<typeof OAuthProvider>
export const OAuthProviders = z
  .array(OAuthProvider)
  .meta({ description: 'All providers of the organization, newest first.' })

const Warning = z
  .object({ code: z.string(), detail: z.string() })
  .meta({ id: 'OAuthWarning', description: 'A finding of discovery that does not prevent use.' })

const discoveryMembers = {
  warnings: z.array(Warning),
  trace: z.array(OAuthFetch),
}
export const OAuthProviderDetails = z
  .object({
    ...providerMembers,
    scopes: z.array(z.string()).meta({ description: 'The scopes of a flow that names none.' }),
    redirect_uri: z.string().meta({ description: 'The redirect URI. Register it at the server.' }),
    registration: z.enum(registrations).meta({ description: 'How the client was obtained.' }),
    revocation_url: z.string().nullable(),
    issuer: z.string().nullable().meta({ description: 'The issuer of the authorization server.' }),
    client_secret_fingerprint: SecretFingerprint,
    client_secret_expires_at: Time.nullable(),
    health: z.enum(healthStates),
    health_detail: z.string().nullable(),
    checked_at: Time,
    owner: Owner.nullable(),
    made_by_workspace: Uuid.nullable().meta({
      description: [
        'The workspace that may change the provider while no other workspace is connected through it.',
        'Every other change needs `organization:manage-providers`.',
      ].join(' '),
    }),
    warnings: discoveryMembers.warnings
      .nullable()
      .meta({ description: 'The warnings of the last check; null without `deployments:update`.' }),
    trace: discoveryMembers.trace.nullable().meta({
      description: 'All requests of the last check; null without `deployments:update`.',
    }),
  })
  .meta({
    id: 'OAuthProviderDetails',
    description: 'An OAuth provider, with the metadata and the health of its servers.',
  })
export type OAuthProviderDetails = z.output<typeof OAuthProviderDetails>

export const DiscoveryPreview = z
  .object({
    provider_id: z.string(),
    name: z.string(),
    mcp_server_url: z.string().meta({ description: 'The URL that would be stored.' }),
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
      .meta({ description: 'The metadata of the servers.' }),
    registration: z.enum(registrations).meta({ description: 'How the client would be obtained.' }),
    redirect_uri: z
      .string()
      .nullable()
      .meta({ description: 'The redirect URI to register; null if it is created with the provider.' }),
    ...discoveryMembers,
  })
  .meta({
    id: 'OAuthDiscovery',
    description: 'The provider that discovery would create. Nothing was registered or stored.',
  })
export type DiscoveryPreview = z.output<typeof DiscoveryPreview>

export const ProviderQuery = z.object({ owner: ownedBy })
export const ProviderRef = z.object({ provider_id: ProviderId })

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
/** Runs even if single members are invalid, so that a response names all faults at once. */
const alwaysCheck = { when: ({ value }: { value: unknown }) => isObject(value) }

type ClientAuthInput = { client_secret?: unknown; token_endpoint_auth_method?: unknown }
const checkSecret = (
  { client_secret, token_endpoint_auth_method: method }: ClientAuthInput,
  check: z.RefinementCtx,
) => {
  if (method == null || (method === 'none') === (client_secret == null)) return
  const message = method === 'none' ? 'is not allowed with the method `none`' : `is required for \`${String(method)}\``
  check.addIssue({ code: 'custom', path: ['client_secret'], message })
}

/** The same for the document. */
const SECRET_CONDITION = all(
  implies(isAnyOf('token_endpoint_auth_method', 'none'), hasNone('client_secret')),
  implies(isAnyOf('token_endpoint_auth_method', 'client_secret_post', 'client_secret_basic'), hasAll('client_secret')),
)

const AuthMethod = z
  .enum(authMethods)
  .meta({ description: 'How the client authenticates. Default: `client_secret_post`, or `none` without a secret.' })
const Pkce = z
  .boolean()
  .meta({ description: 'Whether to use PKCE with S256. Disable it only if the server refuses it.' })

export const NewProvider = z
  .object({
    provider_id: NewProviderId,
    name: Name,
    client_id: ClientId,
    client_secret: optionalMember(ClientSecret),
    auth_url: Endpoint,
    token_url: Endpoint,
    revocation_url: optionalMember(Endpoint),
    scopes: Scopes.default([]).meta({ description: 'The scopes of a flow that names none.' }),
    uses_pkce: Pkce.default(true),
    code_challenge_method: optionalMember(z.literal('S256')),
    token_endpoint_auth_method: optionalMember(AuthMethod),
    provider_type: optionalMember(z.enum(providerTypes)),
    owner: optionalMember(Owner),
  })
  .superRefine(checkSecret, alwaysCheck)
  .meta({
    id: 'NewOAuthProvider',
    description: 'A provider whose client you registered, with `/v2/auth/callback/{provider_id}` of this installation.',
    ...SECRET_CONDITION,
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
  const addFault = (member: string, message: string) => check.addIssue({ code: 'custom', path: [member], message })
  if (client_secret != null && client_id == null) addFault('client_id', 'is required with a `client_secret`')
  if (registration === 'given' && client_id == null) addFault('client_id', 'is required for the registration `given`')
  if (client_id != null && registration !== 'auto' && registration !== 'given' && registration !== undefined)
    addFault('registration', 'must be `given` or absent with a `client_id`')
}

export const McpServer = z
  .object({
    provider_id: NewProviderId,
    name: Name,
    mcp_server_url: z.string().min(1).max(2048).meta({
      format: 'uri',
      pattern: '^https?://',
      description: 'The URL of an MCP server that requires OAuth.',
    }),
    client_id: optionalMember(ClientId).meta({ description: 'The id of a client that you registered.' }),
    client_secret: optionalMember(ClientSecret),
    scopes: optionalMember(Scopes).meta({ description: 'The scopes to use instead of those that the server lists.' }),
    registration: z
      .enum(['auto', ...registrations])
      .default('auto')
      .meta({
        description: 'How to obtain the client. `auto` takes the first possible of: given, metadata document, dynamic.',
      }),
    owner: optionalMember(Owner),
  })
  .superRefine(checkClient, alwaysCheck)
  .meta({
    id: 'McpServer',
    description: 'An MCP server. Everything else is discovered from its URL.',
    ...all(
      implies(hasAll('client_secret'), hasAll('client_id')),
      implies(isAnyOf('registration', 'given'), hasAll('client_id')),
      implies(hasAll('client_id'), isAbsentOrAnyOf('registration', 'auto', 'given')),
    ),
    example: { provider_id: 'issues', name: 'Issues', mcp_server_url: 'https://mcp.example.com/mcp' },
  })
export type McpServer = z.output<typeof McpServer>

export const DiscoverQuery = z.object({
  dry_run: z
    .preprocess(parseBoolean, z.boolean().default(false))
    .meta({ description: 'Return the provider that would be created. Register and store nothing.' }),
})

export const ProviderPatch = z
  .object({
    name: optionalMember(Name),
    client_id: optionalMember(ClientId).meta({ description: 'Only for a client that you registered.' }),
    client_secret: optionalMember(ClientSecret),
    token_endpoint_auth_method: optionalMember(AuthMethod),
    scopes: optionalMember(Scopes),
    auth_url: optionalMember(Endpoint).meta({
      description: 'Only for a provider made by hand, as the next three members.',
    }),
    token_url: optionalMember(Endpoint),
    revocation_url: optionalMember(Endpoint),
    uses_pkce: optionalMember(Pkce),
    provider_id: optionalMember(z.string()).meta({ description: 'It cannot be changed.' }),
    provider_type: optionalMember(z.string()).meta({ description: 'It cannot be changed.' }),
    mcp_server_url: optionalMember(z.string()).meta({ description: 'It cannot be changed.' }),
    owner: OwnerPatch,
  })
  .superRefine(checkSecret, alwaysCheck)
  // The path parameter has the same name and would overwrite it.
  .transform(({ provider_id, ...patch }) => ({ ...patch, renamed: provider_id }))
  .meta({
    id: 'OAuthProviderPatch',
    description: 'A member that is absent or null keeps its stored value.',
    ...SECRET_CONDITION,
    example: { name: 'GitHub Enterprise', scopes: ['read:user', 'repo'] },
  })
export type ProviderPatch = z.output<typeof ProviderPatch>
