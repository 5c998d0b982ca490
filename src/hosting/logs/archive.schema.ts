// Schemas of archives of logs.
import * as z from 'zod'
import { listOf, Page, Uuid } from '../../protocol/wire.ts'
import { DeploymentRef } from '../deployments/schema.ts'

export const ArchiveQuery = Page
export const ArchiveRef = DeploymentRef.extend({ archive_id: Uuid })

export const LogArchive = z
  .object({
    id: Uuid,
    deployment_id: Uuid,
    hour: z.iso.datetime().meta({ description: 'The beginning of the hour in which the lines arrived.' }),
    lines: z.int(),
    bytes: z.int().meta({ description: 'The size of the file, compressed.' }),
    dropped_lines: z.int().meta({
      description: 'Lines of this hour that no archive has, because they came faster than they could be archived.',
    }),
    created_at: z.iso.datetime(),
    expires_at: z.iso.datetime().meta({ description: 'When it is deleted.' }),
  })
  .meta({ id: 'LogArchive', description: 'A file with lines of a deployment that arrived within an hour.' })
export type LogArchive = z.output<typeof LogArchive>
export const LogArchiveList = listOf(LogArchive).meta({ id: 'LogArchiveList' })

const MAX_ARCHIVE_DAYS = 3650
export const DEFAULT_ARCHIVE_DAYS = 30
const Days = z.int().min(1).max(MAX_ARCHIVE_DAYS)

export const ArchiveSettings = z
  .object({
    enabled: z.boolean().meta({ description: 'Whether lines of deployments are archived. Off at first.' }),
    retention_days: Days.meta({ description: 'How many days a new archive is kept.' }),
  })
  .meta({
    id: 'LogArchiveSettings',
    description: 'What deployments inherit.',
    example: { enabled: true, retention_days: 30 },
  })
export type ArchiveSettings = z.output<typeof ArchiveSettings>

export const NewDeploymentArchiveSettings = z
  .object({
    enabled: z.boolean().nullable().meta({ description: 'Null: as the workspace has it.' }),
    retention_days: Days.nullable().meta({ description: 'Null: as the workspace has it.' }),
  })
  .meta({ id: 'NewDeploymentLogArchiveSettings', example: { enabled: true, retention_days: null } })
export const DeploymentArchiveSettings = NewDeploymentArchiveSettings.extend({
  effective: ArchiveSettings.meta({ description: 'With what is inherited.' }),
}).meta({ id: 'DeploymentLogArchiveSettings' })
export type DeploymentArchiveSettings = z.output<typeof DeploymentArchiveSettings>
