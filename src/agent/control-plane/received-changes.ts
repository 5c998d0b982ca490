// Reads the answer to a poll, each work on its own: one that this agent cannot read must not stop the others.
import * as z from 'zod'
import { WorkDrain } from '../../protocol/drains.schema.ts'
import { describeIssue } from '../../protocol/fault-messages.ts'
import { JobWork } from '../../protocol/jobs.schema.ts'
import { Changes } from '../../protocol/poll.schema.ts'
import { RepositoryLook } from '../../protocol/repository-looks.schema.ts'
import { Generation } from '../../protocol/sync-fields.schema.ts'
import { Uuid } from '../../protocol/wire.ts'
import { Work } from '../../protocol/work.schema.ts'

const MAX_FAULTS = 3
const MAX_PATH_LENGTH = 200

const RevisionId = z
  .object({ id: Uuid })
  .transform(({ id }) => id)
  .nullable()
  .catch(null)
const WorkIds = z.object({
  deployment_id: Uuid,
  generation: Generation,
  name: z.string().nullable().catch(null),
  revision: RevisionId,
  serving: RevisionId,
})
/** The ids of its revisions stand for them. */
export type WorkIds = z.output<typeof WorkIds>
export type UnreadableWork = {
  /** Null: nobody knows which deployment it is about. */
  ids: WorkIds | null
  faults: string
}

export const ReceivedChanges = Changes.extend({
  changes: z.array(z.unknown()),
  jobs: z.array(z.unknown()).optional(),
  looks: z.array(z.unknown()).optional(),
  drains: z.object({ digest: z.string(), list: z.array(z.unknown()) }).optional(),
}).transform(({ changes: received, jobs: receivedJobs, looks: receivedLooks, drains: offered, ...answer }) => {
  const changes: Work[] = []
  const unreadable: UnreadableWork[] = []
  for (const value of received) {
    const { success, data, error } = Work.safeParse(value, { error: describeIssue })
    if (success) changes.push(data)
    else unreadable.push({ ids: WorkIds.safeParse(value).data ?? null, faults: describeFaults(error.issues) })
  }
  // A job that this agent cannot read is not started, and the control plane gives it up.
  const jobs = (receivedJobs ?? []).flatMap(value => JobWork.safeParse(value).data ?? [])
  const looks = (receivedLooks ?? []).flatMap(value => RepositoryLook.safeParse(value).data ?? [])
  // One of a kind that this agent does not know gets nothing.
  const list = (offered?.list ?? []).flatMap(value => WorkDrain.safeParse(value).data ?? [])
  const drains = offered && { digest: offered.digest, list }
  return { ...answer, changes, jobs, looks, drains, areAllJobsRead: jobs.length === receivedJobs?.length, unreadable }
})
export type ReceivedChanges = z.output<typeof ReceivedChanges>

function describeFaults(issues: z.core.$ZodIssue[]): string {
  const shorten = (path: PropertyKey[]) => path.join('.').slice(0, MAX_PATH_LENGTH).toWellFormed()
  const first = issues.slice(0, MAX_FAULTS).map(({ path, message }) => `\`${shorten(path)}\` ${message}`)
  const more = issues.length - first.length
  return first.join('; ') + (more > 0 ? `; and ${more} more` : '')
}
