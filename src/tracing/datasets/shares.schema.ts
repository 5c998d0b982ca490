// Schemas of shared datasets.
import * as z from 'zod'
import { arrayOf, CREDENTIAL, Uuid } from '../../protocol/wire.ts'
import { JsonObject, offsetPage, Time } from '../runs/list-parameters.schema.ts'
import { ExampleFilter, SELECTABLE } from './examples.schema.ts'

export const ShareRef = z.object({ share_token: Uuid })
export type Share = z.output<typeof ShareRef>

export const DatasetShare = z.object({ dataset_id: Uuid, share_token: Uuid.meta(CREDENTIAL) }).meta({
  id: 'DatasetShare',
  description: 'Everyone who has the token reads the dataset below `/public/{share_token}`.',
})

export const SharedDataset = z
  .object({
    id: Uuid,
    name: z.string(),
    description: z.string().nullable(),
    created_at: Time,
    data_type: z.enum(['kv', 'llm', 'chat']),
    inputs_schema_definition: JsonObject.nullable(),
    outputs_schema_definition: JsonObject.nullable(),
    externally_managed: z.boolean(),
    transformations: z.null(),
    example_count: z.int(),
  })
  .meta({ id: 'SharedDataset' })
export type SharedDataset = z.output<typeof SharedDataset>

export const SharedExampleFilter = ExampleFilter.omit({ dataset: true, filter: true })
export const SharedExampleQuery = SharedExampleFilter.extend({
  select: arrayOf(z.enum(SELECTABLE), SELECTABLE.length).optional(),
  ...offsetPage(),
})
export type SharedExampleQuery = z.output<typeof SharedExampleQuery>
