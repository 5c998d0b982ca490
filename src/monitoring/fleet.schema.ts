// Schemas of the fleet: of one organization, and of the whole installation.
import * as z from 'zod'
import { type DeploymentStatus, deploymentStatuses } from '../protocol/parts.schema.ts'
import { listOf, Uuid } from '../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })
const Count = z.int()
const Skew = z
  .enum(['same', 'older', 'too_old', 'newer', 'unknown'])
  .meta({ description: 'The version beside that of the control plane. `older` is supported, `too_old` is not.' })
const Statuses = z
  .object(
    Object.fromEntries(deploymentStatuses.map(status => [status, Count])) as Record<DeploymentStatus, typeof Count>,
  )
  .meta({ description: 'Deployments by status.' })
const Usage = z
  .object({ traces: Count, bytes: Count })
  .nullable()
  .meta({ description: 'Of the last 24 hours. Null if traces are in ClickHouse.' })

export const Fleet = z
  .object({
    version: z.string().meta({ description: 'The version of the control plane.' }),
    migration: z.string().nullable().meta({ description: 'The newest migration of the database.' }),
    organizations: Count,
    workspaces: Count,
    members: Count,
    listeners: z.object({
      total: Count,
      silent: Count.meta({ description: 'Those that have not polled for five minutes.' }),
    }),
    agents: z
      .array(z.object({ version: z.string().nullable(), skew: Skew, listeners: Count }))
      .meta({ description: 'Listeners by the version of their agent. Null: none has polled.' }),
    deployments: z.object({
      total: Count,
      by_status: Statuses,
      unhealthy: Count,
      not_reconciled: Count.meta({ description: 'Their listener has yet to act on the newest change.' }),
    }),
    queues: z
      .array(
        z.object({
          name: z.string(),
          waiting: Count.meta({ description: 'Counted up to 10,000.' }),
          oldest_seconds: Count.nullable().meta({ description: 'How long the oldest is due.' }),
        }),
      )
      .meta({ description: 'What waits to be done.' }),
    sweeps: z
      .array(
        z.object({
          name: z.string(),
          is_late: z.boolean().meta({ description: 'It was not done for ten minutes. It is due each minute.' }),
          done_at: Time.nullable(),
          failed_at: Time.nullable(),
          ms: Count.meta({ description: 'How long the last run took.' }),
        }),
      )
      .meta({ description: 'The scheduled work of the installation.' }),
    storage: z.object({
      archives_bytes: Count.meta({ description: 'Uploaded source.' }),
      attachments_bytes: Count.meta({ description: 'Attachments of examples.' }),
      database_bytes: Count.nullable().meta({ description: 'Null for an organization.' }),
    }),
    usage: Usage,
  })
  .meta({ id: 'Fleet' })

const ofOrganization = { organization_id: Uuid, organization_name: z.string() }

export const FleetOrganization = z
  .object({
    id: Uuid,
    display_name: z.string(),
    workspaces: Count,
    members: Count,
    listeners: Count,
    deployments: Count,
    created_at: Time,
  })
  .meta({ id: 'FleetOrganization' })
export const FleetOrganizationList = listOf(FleetOrganization).meta({ id: 'FleetOrganizationList' })

export const FleetWorkspace = z
  .object({
    id: Uuid,
    display_name: z.string(),
    ...ofOrganization,
    members: Count,
    listeners: Count,
    deployments: z.object({ total: Count, by_status: Statuses }),
    storage_bytes: Count.meta({ description: 'Uploaded source, and attachments of examples.' }),
    usage: Usage,
    created_at: Time,
  })
  .meta({ id: 'FleetWorkspace' })
export const FleetWorkspaceList = listOf(FleetWorkspace).meta({ id: 'FleetWorkspaceList' })

export const FleetListener = z
  .object({
    id: Uuid,
    ...ofOrganization,
    workspace_id: Uuid.nullable().meta({ description: 'Null for a listener of the platform.' }),
    workspace_name: z.string().nullable(),
    compute_type: z.string(),
    compute_id: z.string(),
    agent_id: z.string().nullable().meta({ description: 'The process that polled last.' }),
    version: z.string().nullable(),
    skew: Skew,
    is_silent: z.boolean().meta({ description: 'It has not polled for five minutes.' }),
    last_seen_at: Time.nullable(),
    deployments: Count,
    created_at: Time,
  })
  .meta({ id: 'FleetListener' })
export const FleetListenerList = listOf(FleetListener).meta({ id: 'FleetListenerList' })
