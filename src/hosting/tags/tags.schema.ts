// Schemas of tags.
import * as z from 'zod'
import { label } from '../../people/access/schema.ts'
import { arrayOf, listOf, Uuid } from '../../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })
export const MAX_TAGS = 50
export const MAX_KEYS = 100
export const MAX_VALUES = 1000

export const TagKeyRef = z.object({ tag_key_id: Uuid })
export const TagValueRef = z.object({ tag_value_id: Uuid })
export const DeploymentTagRef = z.object({ deployment_id: Uuid, tag_value_id: Uuid })

export const TagKey = z
  .object({ id: Uuid, key: z.string(), created_at: Time })
  .meta({ id: 'TagKey', description: 'The key of a tag, for example `team`.' })
export const TagKeyList = listOf(TagKey).meta({ id: 'TagKeyList' })
export const NewTagKey = z.object({ key: label(128) }).meta({ id: 'NewTagKey', example: { key: 'team' } })
export const TagKeyName = NewTagKey.meta({
  id: 'TagKeyName',
  description: 'The new name of the key. Its values stay, and so do the tags of deployments.',
  example: { key: 'squad' },
})

export const TagValue = z
  .object({ id: Uuid, tag_key_id: Uuid, value: z.string(), created_at: Time })
  .meta({ id: 'TagValue', description: 'A value of a tag key. Deployments are tagged with values.' })
export const TagValueList = listOf(TagValue).meta({ id: 'TagValueList' })
export const NewTagValue = z.object({ value: label(256) }).meta({ id: 'NewTagValue', example: { value: 'payments' } })
export const TagValueName = NewTagValue.meta({
  id: 'TagValueName',
  description: 'The new name of the value. The tags of deployments stay.',
  example: { value: 'billing' },
})

export const Tags = z
  .object({
    resources: z.array(z.object({ tag_value_id: Uuid, tag_key_id: Uuid, key: z.string(), value: z.string() })),
  })
  .meta({ id: 'Tags', description: 'The tags of a deployment, by key and value.' })
export const NewTags = z.object({ tag_value_ids: arrayOf(Uuid, MAX_TAGS, 1) }).meta({
  id: 'NewTags',
  description: `Tags to add. A deployment can have at most ${MAX_TAGS} tags.`,
  example: { tag_value_ids: ['5d41402a-bc4b-4a76-b971-9d911017c592'] },
})
