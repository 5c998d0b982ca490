// Schemas of workspace secrets: keys of model providers, as published clients store them.
import * as z from 'zod'
import { arrayOf, boundedText } from '../../protocol/wire.ts'

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
export const SecretList = z.array(z.object({ key: Key })).meta({
  id: 'WorkspaceSecretList',
  description: 'Keys of the providers that have a model configuration. Values are never shown.',
})
