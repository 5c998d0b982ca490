// Revisions in progress in the workspace, those that are queued or were skipped, and the reasons.
import { usePages, useRead } from '../../api/queries.ts'
import { medianOf } from '../../format/amount.ts'
import { describeActor, shortCommit } from '../../format/source.ts'
import { type Deployment, type Summary, stateOfRevision } from '../../format/state.ts'
import { formatSeconds } from '../../format/time.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { ListCard, PageHead } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Prose } from '../../parts/prose.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago, now } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, toAddress } from '../../router/links.tsx'
import { interrupt } from '../deployments/actions.ts'
import { isSlow } from '../deployments/pipeline.ts'
import type { Event } from '../history/marks.ts'
import type { ScreenProps } from '../screen-props.ts'
import styles from './queue.module.css'

type RevisionSummary = NonNullable<Summary['latest_revision']>
type Entry = { deployment: Deployment; revision: RevisionSummary; behind: RevisionSummary | undefined }

export default function Queue({ workspace }: ScreenProps) {
  useCrumbs({ label: 'Queue' })
  const include: ['summary'] = ['summary']
  const query = { state: 'in_flight' as const, include, limit: 100 }
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = usePages(
    workspace,
    'GET /v2/deployments',
    { query },
  )
  const entries = (items ?? []).flatMap(listEntries)
  const running = entries.filter(({ revision }) => isRunning(revision))
  const waiting = entries.filter(({ revision }) => !isRunning(revision))
  return (
    <>
      <PageHead title="Queue" />
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      {!items && !error && <Skeleton lines={4} />}
      {items && entries.length === 0 && (
        <ListCard>
          <Empty title="Nothing in progress" command="slipway deploy">
            The queue shows revisions from their creation until they serve or end. Each deployment has at most one
            revision in progress and one queued.
          </Empty>
        </ListCard>
      )}
      <Entries title="In progress" entries={running} />
      <Entries title="Waiting" entries={waiting} />
      {hasNextPage && (
        <Button busy={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          Show more
        </Button>
      )}
      <Skipped workspace={workspace} />
    </>
  )
}

const isRunning = ({ status }: RevisionSummary) => status === 'BUILDING' || status === 'DEPLOYING'

function listEntries(deployment: Deployment): Entry[] {
  const { latest_revision: latest, in_flight_revision: inFlight } = deployment.summary!
  const first = inFlight ?? latest
  if (!first) return []
  const own = { deployment, revision: first, behind: undefined }
  return latest && latest.id !== first.id ? [own, { deployment, revision: latest, behind: first }] : [own]
}

function Entries({ title, entries }: { title: string; entries: Entry[] }) {
  if (entries.length === 0) return null
  return (
    <Card class={styles.card} title={title} aside={entries.length}>
      <ol class={styles.list}>
        {entries.map(entry => (
          <QueueRow key={entry.revision.id} {...entry} />
        ))}
      </ol>
    </Card>
  )
}

function QueueRow({ deployment, revision, behind }: Entry) {
  const { number, commit, actor, created_at } = revision
  return (
    <li>
      <div class={styles.name}>
        <Link to={`/deployments/${deployment.id}`}>{deployment.name}</Link> <b>r{number}</b>{' '}
        {commit && <code>{shortCommit(commit.sha)}</code>}
        <p class={styles.detail}>
          {commit?.title && `${commit.title}, `}by {describeActor(actor)}
        </p>
      </div>
      <div class={styles.state}>
        <StateLabel state={stateOfRevision(revision)} />
        <p class={styles.detail}>
          <Prose text={describeWait(deployment, revision, behind)} />
        </p>
      </div>
      <Elapsed deployment={deployment} since={created_at} />
      <ActionButton small icon="stop" action={interrupt(deployment, revision)} />
    </li>
  )
}

function describeWait({ status, summary }: Deployment, revision: RevisionSummary, behind?: RevisionSummary): string {
  if (behind) return `Queued behind r${behind.number}. Starts when it has ended.`
  if (revision.status_message) return revision.status_message
  if (status === 'AWAITING_DATABASE') return 'Waiting for the database.'
  if (revision.status === 'CREATING') return 'Waiting for an archive or an image.'
  if (isRunning(revision)) return ''
  return summary?.listener_id ? 'Waiting for the listener.' : 'No listener assigned yet.'
}

function Elapsed({ deployment, since }: { deployment: Deployment; since: string }) {
  const earlier = deployment.summary!.recent_revisions.filter(({ status }) => status === 'DEPLOYED')
  const median = medianOf(earlier.flatMap(({ seconds }) => seconds ?? []))
  const seconds = Math.max(0, Math.floor((now.value - Date.parse(since)) / 1000))
  return (
    <div class={styles.elapsed}>
      <strong>{formatSeconds(seconds)}</strong>
      <p class={isSlow(seconds, median) ? styles.slow : styles.detail}>
        {median === undefined ? <Ago time={since} suffix=" ago" /> : `Median ${formatSeconds(median)}`}
      </p>
    </div>
  )
}

const [SHOWN_SKIPPED, READ_EVENTS] = [5, 100]

/** The newest that never started: a later one took their place, or a rollback holds pushes back. */
function Skipped({ workspace }: { workspace: string }) {
  const { data } = useRead(workspace, 'GET /v2/events', {
    query: { type: ['revision.skipped', 'revision.created'], order: 'desc', limit: READ_EVENTS },
  })
  const events = (data?.resources ?? []).filter(
    ({ type, data }) => type === 'revision.skipped' || data.status === 'SKIPPED',
  )
  if (events.length === 0) return null
  return (
    <Card class={styles.card} title="Recently skipped">
      <ol class={styles.list}>
        {events.slice(0, SHOWN_SKIPPED).map(event => (
          <SkippedRow key={event.id} workspace={workspace} event={event} />
        ))}
      </ol>
    </Card>
  )
}

function SkippedRow({ workspace, event: { subject, data, created_at } }: { workspace: string; event: Event }) {
  const deployment_id = String(data.deployment_id)
  const deployment = useRead(workspace, 'GET /v2/deployments/{deployment_id}', { params: { deployment_id } })
  const revision = useRead(workspace, 'GET /v2/deployments/{deployment_id}/revisions/{revision_id}', {
    params: { deployment_id, revision_id: subject.id },
  })
  // It may be deleted.
  if (!deployment.data || !revision.data) return null
  const page = `/deployments/${deployment_id}`
  const { number, commit, actor } = revision.data
  return (
    <li>
      <div class={styles.name}>
        <Link to={page}>{deployment.data.name}</Link> <b>r{number}</b>{' '}
        {commit && <code>{shortCommit(commit.sha)}</code>}
        <p class={styles.detail}>by {describeActor(actor)}</p>
      </div>
      <div class={styles.state}>
        <StateLabel state={stateOfRevision({ status: 'SKIPPED' })} />
        <p class={styles.detail}>
          <Prose text={String(data.message ?? '')} />
        </p>
      </div>
      <p class={`${styles.detail} ${styles.elapsed}`}>
        <Ago time={created_at} suffix=" ago" />
      </p>
      <ButtonLink small href={toAddress(`${page}/revisions/${number}`)}>
        Open r{number}
      </ButtonLink>
    </li>
  )
}
