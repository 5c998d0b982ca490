// Schemas of workspace secrets: keys of model providers, as published clients store them.
import * as z from 'zod'
import { arrayOf, boundedText } from '../../protocol/wire.ts'
import { flag } from '../../tracing/runs/list-parameters.schema.ts'

const SECRET_KEYS = ['OPENAI_API_KEY', 'ANTHROPIC_API_KEY'] as const
export type SecretKey = (typeof SECRET_KEYS)[number]
const Key = z.enum(SECRET_KEYS, { error: 'must be OPENAI_API_KEY or ANTHROPIC_API_KEY' })

const NewSecret = z.object({
  key: Key,
  value: boundedText(8192)
    .regex(/^[!-~]+$/, { error: 'must consist of visible ASCII characters' })
    .meta({ format: 'password', writeOnly: true }),
})
export type NewSecret = z.output<typeof NewSecret>
export const NewSecrets = arrayOf(NewSecret, SECRET_KEYS.length, 1)
  .refine(secrets => new Set(secrets.map(({ key }) => key)).size === secrets.length, { error: 'repeats a key' })
  .transform(secrets => ({ secrets }))
  .meta({
    id: 'NewWorkspaceSecrets',
    description: 'Each makes or changes the model configuration of its provider that has its name.',
    example: [{ key: 'OPENAI_API_KEY', value: 'sk-example' }],
  })

/** Members and parameters of the published clients; their names are theirs. */
const SecretHost = z.object({
  host_pattern: z.string(),
  source: z.literal('DEFAULT'),
})
export const WorkspaceSecret = z
  .object({
    key: Key,
    configs: z.array(SecretHost).optional().meta({ description: 'The host that the secret is sent to.' }),
  })
  .meta({ id: 'WorkspaceSecret', description: 'The name of a secret. Its value is never shown.' })
export type WorkspaceSecret = z.output<typeof WorkspaceSecret>
/** The verbs check the name, after the permission. */
export const SecretRef = z.object({ secret_key: boundedText(128) })
export const isSecretKey = (name: string): name is SecretKey => Key.safeParse(name).success
export type SecretRef = z.output<typeof SecretRef>
export const SecretQuery = z.object({ include_configs: flag(false) })
const HOSTS_ERROR = 'must be empty: a secret is sent to its provider; POST /v1/model-configurations takes another host'
export const SecretChange = z
  .object({
    value: NewSecret.shape.value.nullish(),
    configs: z.array(z.unknown()).max(0, { error: HOSTS_ERROR }).nullish(),
  })
  .meta({
    id: 'WorkspaceSecretChange',
    description: 'Without a `value`, the stored one stays.',
    example: { value: 'sk-example' },
  })
export type SecretChange = z.output<typeof SecretChange>
export const SecretList = z.array(WorkspaceSecret).meta({
  id: 'WorkspaceSecretList',
  description: 'Keys of the providers that have a model configuration. Values are never shown.',
})
