// Schemas of model configurations, their test, and the settings of the model proxy.
import * as z from 'zod'
import { label } from '../../people/access/schema.ts'
import { all, hasAll, hasMembers, hasNone, implies, isAbsentOrAnyOf, isAnyOf } from '../../protocol/conditions.ts'
import { arrayOf, boundedText, listOf, SecretFingerprint, Uuid } from '../../protocol/wire.ts'

export const Time = z.string().meta({ format: 'date-time' })

export const ConfigurationRef = z.object({ configuration_id: Uuid })

export const providers = ['openai', 'anthropic', 'openai_compatible'] as const
const Provider = z.enum(providers).meta({
  description: '`openai_compatible`: any server that speaks the chat completions of OpenAI, such as vLLM.',
})
/** The SDK of the provider sends its requests there by default. */
export const DEFAULT_BASE_URLS: Partial<Record<(typeof providers)[number], string>> = {
  openai: 'https://api.openai.com/v1',
  anthropic: 'https://api.anthropic.com',
}

const authTypes = ['none', 'secret', 'jwt', 'oauth_client_credentials'] as const
const AuthType = z.enum(authTypes).meta({
  description: [
    '`secret`: the key of the provider is added to each call.',
    '`jwt`: a token that this installation signs, for an authentication proxy of yours in front of the model.',
    '`oauth_client_credentials`: a token that is fetched from `token_url`.',
  ].join(' '),
})
const Secret = boundedText(8192)
  .regex(/^[!-~]+$/, { error: 'must consist of visible ASCII characters' })
  .meta({
    description: 'The key of the provider, or the secret of the OAuth client. Stored encrypted, and never shown.',
    format: 'password',
    writeOnly: true,
  })
const Url = boundedText(2048).meta({ format: 'uri' })
const BaseUrl = Url.meta({
  description: [
    'What the SDK of the provider takes as its base URL. Calls go to URLs below it.',
    'By default that of OpenAI or Anthropic. A change needs `auth_type` and `secret` again.',
  ].join(' '),
})
const oauthShape = {
  token_url: Url.nullish().meta({ description: 'The token endpoint, for `oauth_client_credentials`.' }),
  client_id: boundedText(512).min(1).nullish(),
  scope: boundedText(1000).min(1).nullish(),
  audience: boundedText(1000).min(1).nullish(),
}
const Price = z.number().min(0).max(1_000_000).meta({ description: 'USD for a million tokens. Null: not known.' })
const commonShape = {
  input_price: Price.nullish(),
  output_price: Price.nullish(),
  trace_project: label(256).nullish().meta({ description: 'The project that calls are traced in. Null: in none.' }),
  deployment_ids: arrayOf(Uuid, 100).nullish().meta({
    description: 'The deployments whose applications may use it. Null: all of the workspace. Empty: none.',
  }),
}

type GivenAuth = { auth_type: (typeof authTypes)[number]; secret?: string | null | undefined } & {
  [Name in keyof typeof oauthShape]?: string | null | undefined
}
const OAUTH_MEMBERS = ['token_url', 'client_id', 'scope', 'audience'] as const

function checkAuth(given: GivenAuth, addFault: (member: string, message: string) => void): void {
  const { auth_type } = given
  const needsSecret = auth_type === 'secret' || auth_type === 'oauth_client_credentials'
  if (needsSecret && given.secret == null) addFault('secret', `is required for \`auth_type\` \`${auth_type}\``)
  if (!needsSecret && given.secret != null) addFault('secret', `does not go with \`auth_type\` \`${auth_type}\``)
  for (const member of OAUTH_MEMBERS) {
    const isGiven = given[member] != null
    const isRequired = member === 'token_url' || member === 'client_id'
    if (auth_type !== 'oauth_client_credentials' && isGiven)
      addFault(member, `goes with \`auth_type\` \`oauth_client_credentials\` only`)
    if (auth_type === 'oauth_client_credentials' && isRequired && !isGiven)
      addFault(member, 'is required for `auth_type` `oauth_client_credentials`')
  }
}
/** The same for the document. Without `auth_type`, a new configuration has a secret. */
const authConditions = (isNew: boolean) => [
  implies(
    (isNew ? isAbsentOrAnyOf : isAnyOf)('auth_type', 'secret', 'oauth_client_credentials'),
    hasAll('secret'),
    hasNone('secret'),
  ),
  implies(
    isAnyOf('auth_type', 'oauth_client_credentials'),
    hasAll('token_url', 'client_id'),
    hasNone(...OAUTH_MEMBERS),
  ),
]
const addFaultTo = (check: z.core.ParsePayload<unknown>) => (member: string, message: string) => {
  check.issues.push({ code: 'custom', path: [member], message, input: check.value })
}

export const NewConfiguration = z
  .object({
    name: label(128),
    provider: Provider,
    base_url: BaseUrl.nullish(),
    model: label(256).meta({ description: 'The name of the model at its provider.' }),
    auth_type: AuthType.default('secret'),
    secret: Secret.nullish(),
    ...oauthShape,
    ...commonShape,
  })
  .check(check => {
    checkAuth(check.value, addFaultTo(check))
    if (check.value.base_url == null && !DEFAULT_BASE_URLS[check.value.provider])
      addFaultTo(check)('base_url', 'is required for this `provider`')
  })
  .meta({
    id: 'NewModelConfiguration',
    description: 'A model that the workspace can call.',
    ...all(...authConditions(true), implies(isAnyOf('provider', 'openai_compatible'), hasAll('base_url'))),
    example: { name: 'gpt', provider: 'openai', model: 'gpt-4.1-mini', auth_type: 'jwt' },
  })
export type NewConfiguration = z.output<typeof NewConfiguration>

export const ConfigurationPatch = z
  .object({
    name: label(128).nullish(),
    provider: Provider.nullish(),
    base_url: BaseUrl.nullish(),
    model: label(256).nullish(),
    auth_type: AuthType.nullish(),
    secret: Secret.nullish(),
    ...oauthShape,
    ...commonShape,
  })
  .check(check => {
    const { auth_type, secret, ...given } = check.value
    if (auth_type != null) return checkAuth({ ...given, auth_type, secret }, addFaultTo(check))
    for (const member of ['secret', ...OAUTH_MEMBERS] as const)
      if (check.value[member] != null) addFaultTo(check)(member, 'needs `auth_type` in the same request')
  })
  .meta({
    id: 'ModelConfigurationPatch',
    description: [
      'Members that are absent stay as they are. `auth_type` replaces all of the authentication:',
      'send it with the members that belong to it.',
    ].join(' '),
    ...all(...authConditions(false)),
    example: { model: 'gpt-4.1' },
  })
export type ConfigurationPatch = z.output<typeof ConfigurationPatch>

export const TestOutcome = z
  .object({
    ok: z.boolean(),
    code: z.string().nullable().meta({ description: 'The code of the error, if the call failed.' }),
    detail: z.string().nullable().meta({ description: 'What failed, and what to do.' }),
    answer: z.string().nullable().meta({ description: 'The first 200 characters of the answer of the model.' }),
    model: z.string().nullable().meta({ description: 'The model that answered, as the provider names it.' }),
    latency_ms: z.int(),
    input_tokens: z.int().nullable(),
    output_tokens: z.int().nullable(),
    tested_at: Time,
  })
  .meta({ id: 'ModelTestOutcome', description: 'The outcome of one small call.' })
export type TestOutcome = z.output<typeof TestOutcome>

export const Configuration = z
  .object({
    id: Uuid,
    name: z.string(),
    provider: Provider,
    base_url: z.string(),
    model: z.string(),
    auth_type: AuthType,
    secret_fingerprint: SecretFingerprint,
    token_url: z.string().nullable(),
    client_id: z.string().nullable(),
    scope: z.string().nullable(),
    audience: z.string().nullable(),
    input_price: z.number().nullable(),
    output_price: z.number().nullable(),
    trace_project: z.string().nullable(),
    deployment_ids: z.array(Uuid).nullable(),
    last_test: TestOutcome.nullable(),
    proxy_url: z.string().meta({ description: 'The base URL for SDKs that call this model through the proxy.' }),
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'ModelConfiguration', description: 'A model that the workspace can call. Its secret is never shown.' })
export type Configuration = z.output<typeof Configuration>
export const ConfigurationList = listOf(Configuration).meta({ id: 'ModelConfigurationList' })

// ---- settings of the proxy

const modes = ['configurations', 'all', 'none', 'list'] as const
const Mode = z.enum(modes).meta({
  description: [
    'Which URLs calls may address. `configurations`: those below the `base_url` of a configuration, which every',
    'call is. `list`: of these, the ones that a pattern matches. `all` is as `configurations`. `none`: no URL.',
  ].join(' '),
})
const Patterns = arrayOf(boundedText(2048), 100).meta({
  description: [
    'Such as `https://api.openai.com/v1/*`. A `*` at the end stands for any rest of the path, and one in place of the',
    'first label of the host for any label: `https://*.openai.azure.com/*`.',
  ].join(' '),
})
const settingsShape = {
  enabled: z.boolean().meta({ description: 'False: no model can be called in this organization.' }),
  audience: boundedText(512)
    .min(1)
    .nullable()
    .meta({ description: 'The `aud` of tokens (`auth_type` `jwt`). Null: the origin of the `base_url`.' }),
  allowed_urls: z.object({ mode: Mode, patterns: Patterns }),
}

export const ProxySettings = z
  .object({
    ...settingsShape,
    jwks_url: z.string().meta({ description: 'The public keys that verify the tokens.' }),
    header: z.string().meta({ description: 'The header of a call that has the token.' }),
    issuer: z.string().meta({ description: 'The `iss` of tokens.' }),
    updated_at: Time.nullable().meta({ description: 'Null: these are the defaults.' }),
  })
  .meta({ id: 'ModelProxySettings', description: 'What the organization allows for calls of models.' })
export type ProxySettings = z.output<typeof ProxySettings>

export const ProxySettingsPatch = z
  .object({
    enabled: settingsShape.enabled.nullish(),
    audience: settingsShape.audience.optional(),
    allowed_urls: z
      .object({ mode: Mode, patterns: Patterns.nullish() })
      .meta(implies(isAnyOf('mode', 'list'), hasMembers({ patterns: { type: 'array', items: {}, minItems: 1 } })))
      .nullish(),
  })
  .check(check => {
    const { mode, patterns } = check.value.allowed_urls ?? {}
    if (mode === 'list' && !patterns?.length)
      check.issues.push({
        code: 'custom',
        path: ['allowed_urls', 'patterns'],
        message: 'needs at least one pattern. To allow no URL, send the mode `none`',
        input: patterns,
      })
  })
  .meta({
    id: 'ModelProxySettingsPatch',
    description: 'Members that are absent stay as they are.',
    example: { allowed_urls: { mode: 'list', patterns: ['https://api.openai.com/v1/*'] } },
  })
export type ProxySettingsPatch = z.output<typeof ProxySettingsPatch>
