// Schemas of the tags of every kind of resource, as clients of the reference know them.
import * as z from 'zod'
import { label } from '../../people/access/schema.ts'
import { Uuid } from '../../protocol/wire.ts'
import { TagKeyRef } from './tags.schema.ts'

const Time = z.string().meta({ format: 'date-time' })
const Description = z.string().max(1000).nullish()
const Times = { created_at: Time, updated_at: Time }

const keyShape = { id: Uuid, key: z.string(), description: z.string().nullable(), ...Times }
const valueShape = { id: Uuid, tag_key_id: Uuid, value: z.string(), description: z.string().nullable(), ...Times }

export const WorkspaceTagKey = z.object(keyShape).meta({ id: 'WorkspaceTagKey' })
export const WorkspaceTagKeys = z.array(WorkspaceTagKey).meta({ id: 'WorkspaceTagKeys' })
export const NewWorkspaceTagKey = z
  .object({ key: label(128), description: Description })
  .meta({ id: 'NewWorkspaceTagKey', example: { key: 'Client', description: 'Who pays for it' } })
export const WorkspaceTagKeyPatch = z
  .object({ key: label(128).nullish(), description: Description })
  .meta({ id: 'WorkspaceTagKeyPatch', example: { description: 'Who pays for it' } })

export const TagValueOfKeyRef = z.object({ ...TagKeyRef.shape, tag_value_id: Uuid })
export const WorkspaceTagValue = z.object(valueShape).meta({ id: 'WorkspaceTagValue' })
export const WorkspaceTagValues = z.array(WorkspaceTagValue).meta({ id: 'WorkspaceTagValues' })
export const NewWorkspaceTagValue = z
  .object({ value: label(256), description: Description })
  .meta({ id: 'NewWorkspaceTagValue', example: { value: 'acme' } })
export const WorkspaceTagValuePatch = z
  .object({ value: label(256).nullish(), description: Description })
  .meta({ id: 'WorkspaceTagValuePatch', example: { value: 'acme-corp' } })

/** The reference answers deletions with an empty object. */
export const Deleted = z.object({}).meta({ id: 'Deleted' })

// ---- taggings

/** Kinds that the reference tags. Only some of them exist here; an experiment is a project. */
export const taggedKinds = [
  'dashboard',
  'dataset',
  'deployment',
  'evaluator',
  'experiment',
  'fleet_integration',
  'mcp_server',
  'project',
  'prompt',
  'queue',
  'sandbox',
] as const
const Kind = z.enum(taggedKinds)

export const NewTagging = z.object({ tag_value_id: Uuid, resource_type: Kind, resource_id: Uuid }).meta({
  id: 'NewTagging',
  example: {
    tag_value_id: '5d41402a-bc4b-4a76-b971-9d911017c592',
    resource_type: 'project',
    resource_id: '7d793037-a076-4a0e-bfc1-a1a3ad0f9b5e',
  },
})
export type NewTagging = z.output<typeof NewTagging>
export const Tagging = z
  .object({ id: Uuid, tag_value_id: Uuid, resource_type: Kind, resource_id: Uuid, created_at: Time })
  .meta({ id: 'Tagging', description: 'A tag of a resource.' })
export type Tagging = z.output<typeof Tagging>
export const TaggingRef = z.object({ tagging_id: Uuid })

export const TaggingQuery = z.object({ tag_value_id: Uuid.optional() })
const TaggedResources = z.array(z.object({ tagging_id: Uuid, resource_id: Uuid, resource_name: z.string() }))
export const TaggedKinds = [
  'alerts',
  'dashboards',
  'datasets',
  'deployments',
  'experiments',
  'fleet_integrations',
  'mcp_servers',
  'projects',
  'prompts',
  'queues',
  'sandboxes',
] as const
// It is no record: the document has no properties for the keys of one.
const ResourcesByKind = z.object(
  Object.fromEntries(TaggedKinds.map(kind => [kind, TaggedResources])) as Record<
    (typeof TaggedKinds)[number],
    typeof TaggedResources
  >,
)
export const Taggings = z
  .array(
    z.object({
      tag_key: z.string(),
      tag_key_id: Uuid,
      tag_value: z.string(),
      tag_value_id: Uuid,
      resources: ResourcesByKind,
    }),
  )
  .meta({ id: 'Taggings' })
export type Taggings = z.output<typeof Taggings>

export const WorkspaceTags = z
  .array(z.object({ ...keyShape, values: WorkspaceTagValues }))
  .meta({ id: 'WorkspaceTags', description: 'The keys of a workspace, with their values.' })
export const ResourceTagQuery = z
  .object({ resource_type: Kind, resource_id: Uuid })
  .meta({ example: { resource_type: 'project', resource_id: '7d793037-a076-4a0e-bfc1-a1a3ad0f9b5e' } })
export type ResourceTagQuery = z.output<typeof ResourceTagQuery>
export const ResourceTags = z
  .array(z.object({ ...keyShape, values: z.array(z.object({ ...valueShape, taggings: z.array(Tagging) })) }))
  .meta({ id: 'ResourceTags' })
