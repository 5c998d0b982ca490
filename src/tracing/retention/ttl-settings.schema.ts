// Schemas of the retention that projects inherit from their workspace or organization.
import * as z from 'zod'
import { Uuid } from '../../protocol/wire.ts'
import { LonglivedDays, TraceTier } from '../projects/projects.schema.ts'
import { Time } from '../runs/list-parameters.schema.ts'

export const TtlSettings = z
  .object({
    id: Uuid,
    organization_id: Uuid,
    tenant_id: Uuid.nullable().meta({ description: 'Null for the settings of the organization.' }),
    default_trace_tier: TraceTier.meta({ description: 'Of new projects.' }),
    longlived_ttl_days: z.int(),
    apply_to_all_projects: z.boolean(),
    configured_by: z.enum(['system', 'user']).meta({ description: '`system`: nothing was set, so this is inherited.' }),
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'TtlSettings', description: 'For how long new projects keep their traces.' })
export type TtlSettings = z.output<typeof TtlSettings>
export const TtlSettingsList = z.array(TtlSettings).meta({ id: 'TtlSettingsList' })

export const NewTtlSettings = z
  .object({
    tenant_id: Uuid.nullish().meta({ description: 'The workspace. By default that of the request.' }),
    default_trace_tier: TraceTier,
    apply_to_all_projects: z.boolean().default(false).meta({
      description: 'Also change the projects that the workspace has. Traces that began before keep their tier.',
    }),
  })
  .meta({ id: 'NewTtlSettings', example: { default_trace_tier: 'shortlived' } })
export type NewTtlSettings = z.output<typeof NewTtlSettings>

const OF_ONE_WORKSPACE = 'is for one workspace; send it to PUT /ttl-settings of each'
export const NewOrganizationTtlSettings = NewTtlSettings.extend({
  apply_to_all_projects: z.literal(false, { error: OF_ONE_WORKSPACE }).default(false),
}).meta({ id: 'NewOrganizationTtlSettings', example: { default_trace_tier: 'shortlived' } })
export type NewOrganizationTtlSettings = z.output<typeof NewOrganizationTtlSettings>

export const WorkspaceTtl = z
  .object({ tenant_id: Uuid, longlived_ttl_days: z.int(), is_custom: z.boolean() })
  .meta({ id: 'WorkspaceTtl', description: 'For how many days the workspace keeps long-lived traces.' })
export const NewWorkspaceTtl = z
  .object({ longlived_ttl_days: LonglivedDays })
  .meta({ id: 'NewWorkspaceTtl', example: { longlived_ttl_days: 400 } })
