// Schemas of what was wanted, served and true at a moment.
import * as z from 'zod'
import {
  DeploymentStatus,
  RevisionStatus,
  SecretReference,
  Source,
  SourceConfig,
  SourceRevisionConfig,
} from '../../protocol/parts.schema.ts'
import { Instant, listOf, optionalFilter, Page, Uuid } from '../../protocol/wire.ts'
import { Hold } from './revisions.schema.ts'

const Time = z.string().meta({ format: 'date-time' })

export const MomentQuery = z
  .object({
    at: optionalFilter(Instant).meta({
      description: 'The moment, with its whole millisecond. By default now, and a later one counts as now.',
    }),
  })
  .meta({ id: 'MomentQuery', example: { at: '2026-11-22T14:02:00Z' } })

export const MomentListQuery = z.object({
  ...Page.shape,
  ...MomentQuery.shape,
})
export type MomentListQuery = z.output<typeof MomentListQuery>

const RevisionAtMoment = z
  .object({
    id: Uuid,
    number: z.int(),
    status: RevisionStatus.nullable().meta({ description: 'Its state at that moment. Null if it was not recorded.' }),
    since: Time.meta({ description: 'When it entered that state.' }),
    commit: z.object({ sha: z.string(), message: z.string().nullable(), author: z.string().nullable() }).nullable(),
    image_uri: z.string().nullable(),
  })
  .meta({ id: 'RevisionAtMoment' })
export type RevisionAtMoment = z.output<typeof RevisionAtMoment>

const summaryMembers = {
  status: DeploymentStatus.nullable().meta({
    description: 'UNKNOWN while its listener was silent. Null if it is not known.',
  }),
  healthy: z
    .boolean()
    .nullable()
    .meta({ description: 'What its agent reported, recorded once a minute. Null if nothing is known.' }),
  latest: RevisionAtMoment.nullable().meta({ description: 'The newest revision that was wanted.' }),
  served: RevisionAtMoment.nullable().meta({ description: 'The revision that received the requests, and since when.' }),
  in_flight: RevisionAtMoment.nullable(),
  waiting: RevisionAtMoment.nullable(),
  hold: Hold.nullable(),
  unknown: z
    .array(z.string())
    .meta({ description: 'Members that the journal cannot tell for that moment. Their value here is null.' }),
}

export const MomentSummary = z
  .object(summaryMembers)
  .meta({ id: 'MomentSummary', description: 'What was served and true at a moment.' })
export type MomentSummary = z.output<typeof MomentSummary>

export const MomentState = z
  .object({
    ...summaryMembers,
    url: z.string().nullable(),
    wanted: z
      .object({
        source: Source,
        source_config: SourceConfig,
        source_revision_config: SourceRevisionConfig.meta({
          description: 'With the commit or digest that it was resolved to, also if that was later.',
        }),
        secrets: z.array(z.object({ name: z.string(), version: z.int() })),
        secret_references: z.array(SecretReference).nullable(),
      })
      .nullable()
      .meta({ description: 'The configuration of the latest revision, with the in-place changes until that moment.' }),
  })
  .meta({ id: 'MomentState', description: 'What was wanted, served and true at a moment.' })
export type MomentState = z.output<typeof MomentState>

export const DeploymentMoment = z
  .object({
    deployment_id: Uuid,
    name: z.string(),
    created_at: Time,
    at: Time,
    past: MomentState.nullable().meta({ description: 'Null if it did not exist.' }),
    present: MomentState,
    changes: z.array(z.object({ path: z.string(), before: z.unknown(), after: z.unknown() })).meta({
      description: 'Members of the configuration that differ now. `secrets.NAME` has versions, never values.',
    }),
  })
  .meta({ id: 'DeploymentMoment', description: 'A deployment at a moment, and what is different now.' })
export type DeploymentMoment = z.output<typeof DeploymentMoment>

const ListedMoment = z
  .object({
    deployment_id: Uuid,
    name: z.string(),
    created_at: Time,
    past: MomentSummary.nullable().meta({ description: 'Null if it did not exist.' }),
    present: MomentSummary,
  })
  .meta({ id: 'ListedMoment' })
export const MomentList = listOf(ListedMoment).meta({
  id: 'MomentList',
  description: 'A page of deployments, newest first, each at a moment and now.',
})
export type ListedMoment = z.output<typeof ListedMoment>
