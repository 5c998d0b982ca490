// Schemas of the split of traffic between the revision that serves and one beside it.
import * as z from 'zod'
import { ReportedRollout, type StoredProgress, WorkRollout } from './rollout.schema.ts'
import { arrayOf, boundedText, Uuid } from './wire.ts'

/** At once: the one that serves, and one beside it. */
const MAX_SPLIT_REVISIONS = 2

const Share = z.int().min(0).max(100).meta({ description: 'Percent.' })

const HEADER_ERROR = 'must be the name of a header: letters, digits and hyphens'
const Sticky = z
  .discriminatedUnion('by', [
    z.object({ by: z.literal('cookie') }),
    z.object({
      by: z.literal('header'),
      header: boundedText(64, HEADER_ERROR)
        .regex(/^[A-Za-z0-9][A-Za-z0-9-]*$/, { error: HEADER_ERROR })
        .toLowerCase()
        .meta({ description: 'Requests with the same value go to the same revision. Those without it are drawn.' }),
    }),
  ])
  .meta({
    id: 'Sticky',
    type: 'object',
    description: 'By what a client stays with its revision: a cookie of the router, or a header.',
  })
type Sticky = z.output<typeof Sticky>

const NAME_ERROR = 'must be lower-case letters, digits and single hyphens, without a hyphen at either end'
const RevisionName = boundedText(20, NAME_ERROR).regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, { error: NAME_ERROR })

const revision_id = Uuid
const starts_at = Share.meta({
  description:
    'The share with which each later revision starts, beside the one that serves. 100: it takes all traffic once it ' +
    'is healthy. 0: none until it is given some.',
})
const sticky = Sticky.nullable().meta({ description: 'Null: each request is drawn by itself.' })

const NewShare = z.object({
  revision_id,
  share: Share,
  name: RevisionName.nullish().meta({
    description: 'Serves it alone at `<name>--<deployment>` below the domain of the deployment, also without a share.',
  }),
})

export const NewTraffic = z
  .object({
    shares: arrayOf(NewShare, MAX_SPLIT_REVISIONS).meta({
      description:
        'The share of each revision, together 100. Others get none. Empty: nothing is split, and the newest ' +
        'revision takes all once it is healthy.',
    }),
    starts_at: starts_at.default(100),
    sticky: sticky.default(null),
  })
  .superRefine(({ shares }, check) => {
    const fault = (message: string, path: (string | number)[] = ['shares']) =>
      check.addIssue({ code: 'custom', path, message })
    const total = shares.reduce((sum, { share }) => sum + share, 0)
    if (shares.length > 0 && total !== 100) fault(`must add up to 100, not ${total}`)
    const [first, second] = shares
    if (second && first!.revision_id === second.revision_id) fault('is there twice', ['shares', 1, 'revision_id'])
    if (second?.name != null && first!.name === second.name) fault('is there twice', ['shares', 1, 'name'])
  })
  .meta({
    id: 'NewTraffic',
    description: 'How the traffic of a deployment is split between two of its revisions.',
    example: {
      shares: [
        { revision_id: '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11', share: 90 },
        { revision_id: '45c48cce-2e2d-4fbd-8a1a-c51c7c6ad26a', share: 10, name: 'green' },
      ],
      sticky: { by: 'cookie' },
    },
  })
export type NewTraffic = z.output<typeof NewTraffic>

export const TrafficShare = z
  .object({
    revision_id,
    share: Share,
    applied: z.boolean().meta({ description: 'Whether its agent serves this share now.' }),
    problem: z.string().nullable().meta({ description: 'Why not, if waiting does not help.' }),
    name: z.string().nullable(),
    url: z.string().nullable().meta({ description: 'The address of its name. Null without one.' }),
  })
  .meta({ id: 'TrafficShare', description: 'The share of a revision of the traffic of its deployment.' })
export type TrafficShare = z.output<typeof TrafficShare>

export const TrafficSettings = z.object({ starts_at, sticky }).meta({ id: 'TrafficSettings' })
export type TrafficSettings = z.output<typeof TrafficSettings>

// ---- stored

/** `rollout`: its share moves by the steps of a policy. */
type BesideShare = { revision_id: string | null; share: number; first: number | null; rollout?: StoredProgress | null }
type Named = { name: string | null; label: string | null }
/** Null: nothing is split. Only drizzle/functions/traffic.sql writes it. */
export type StoredTraffic = {
  starts_at: number
  sticky: Sticky | null
  active: Named | null
  /** `first`: the share of its successor, if no rollout says it. `revision_id` is null until there is one. */
  beside: (Named & BesideShare) | null
}

// ---- for agents

export const WorkTraffic = z
  .object({
    revision_id: Uuid,
    share: z.int(),
    sticky: Sticky.nullable(),
    rollout: WorkRollout.nullish().meta({ description: 'Null: its share moves by hand.' }),
  })
  .meta({
    id: 'WorkTraffic',
    description:
      'The share of one revision, the one in flight or `beside`, in percent. The rest is of the serving one, also ' +
      'while no copy of that revision is ready. With less than 100 it does not become the serving one.',
  })
export type WorkTraffic = z.output<typeof WorkTraffic>

export const ReportedTraffic = z
  .object({
    revision_id: Uuid,
    share: z.int().min(0).max(100),
    problem: boundedText(2000).nullish().meta({ description: 'Why it does not get its share.' }),
    rollout: ReportedRollout.nullish(),
  })
  .meta({
    id: 'ReportedTraffic',
    description: 'The share that a revision beside the serving one gets now, once it was healthy or has failed.',
  })
export type ReportedTraffic = z.output<typeof ReportedTraffic>
