// A deployment at any time: desired, served and observed state, and the differences to now.
import type { ComponentChildren } from 'preact'
import type { Reply } from '../../../client/client.ts'
import { usePages, useRead } from '../../api/queries.ts'
import { shortCommit, shortImage } from '../../format/source.ts'
import { type Deployment, stateOfRevision } from '../../format/state.ts'
import { formatAge, formatExact, formatShort } from '../../format/time.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Glyph } from '../../parts/icon.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Prose } from '../../parts/prose.tsx'
import { Badge, StateLabel } from '../../parts/state.tsx'
import { Link, toAddress } from '../../router/links.tsx'
import { DeploymentFrame } from '../deployments/frame.tsx'
import type { ScreenProps } from '../screen-props.ts'
import styles from './history.module.css'
import { listMarks, type Mark } from './marks.ts'
import { stateAtMoment, toMoment } from './moment.ts'
import { TimeSlider, useMoment } from './slider.tsx'

type Moment = Reply<'GET /v2/deployments/{deployment_id}/state'>
type MomentState = NonNullable<Moment['past']>
type RevisionThen = NonNullable<MomentState['latest']>

const PAGE_SIZE = 100
const SHOWN_AROUND = 5

export default function DeploymentHistory({ workspace, params }: ScreenProps<{ deployment: string }>) {
  return (
    <DeploymentFrame workspace={workspace} id={params.deployment} tab="/history">
      {deployment => <History workspace={workspace} deployment={deployment} />}
    </DeploymentFrame>
  )
}

function History({ workspace, deployment }: { workspace: string; deployment: Deployment }) {
  const ref = { params: { deployment_id: deployment.id } }
  const { at, text } = useMoment()
  const { data, error, refetch } = useRead(workspace, 'GET /v2/deployments/{deployment_id}/state', {
    ...ref,
    query: text === undefined ? {} : { at: text },
  })
  const revisions = usePages(workspace, 'GET /v2/deployments/{deployment_id}/revisions', {
    ...ref,
    query: { limit: PAGE_SIZE },
  })
  const events = useRead(workspace, 'GET /v2/events', {
    query: { subject_id: deployment.id, order: 'desc', limit: PAGE_SIZE },
  })
  const isRead = revisions.items !== undefined && (events.data !== undefined || events.isError)
  const marks = listMarks(revisions.items ?? [], events.data?.resources ?? [])
  return (
    <>
      <TimeSlider marks={marks} first={Date.parse(deployment.created_at)}>
        {revisions.hasNextPage && (
          <Button small look="bare" busy={revisions.isFetchingNextPage} onClick={() => void revisions.fetchNextPage()}>
            Mark earlier revisions
          </Button>
        )}
      </TimeSlider>
      {error && !data && <Problem error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Skeleton lines={6} />}
      {data && <MomentView moment={data} isNow={at === undefined} />}
      {isRead && <Around marks={marks} at={at ?? Number.POSITIVE_INFINITY} isNow={at === undefined} />}
    </>
  )
}

function MomentView({ moment, isNow }: { moment: Moment; isNow: boolean }) {
  const { past, present, changes } = moment
  if (!past)
    return (
      <Card title="The deployment did not exist">
        <p class={styles.nothing}>
          The deployment was created on {formatExact(moment.created_at)}.{' '}
          <Link class={styles.link} to={`/deployments/${moment.deployment_id}/history?at=${moment.created_at}`}>
            Go to that time
          </Link>
        </p>
      </Card>
    )
  return (
    <>
      {past.unknown.length > 0 && <Unknown members={past.unknown} />}
      <div class={styles.facts}>
        <Served moment={moment} past={past} isNow={isNow} />
        <Wanted past={past} present={present} isNow={isNow} />
        <Truth past={past} present={present} isNow={isNow} />
      </div>
      {!isNow && <Differences changes={changes} />}
    </>
  )
}

const Unknown = ({ members }: { members: string[] }) => (
  <p class={styles.unknown} role="note">
    <Glyph shape="diamond" tone="warn" />
    <span>
      The journal no longer has all events since then. Unknown:{' '}
      {members.map((member, i) => (
        <span key={member}>
          {i > 0 && ', '}
          <code>{member.replace('wanted.', '')}</code>
        </span>
      ))}
      . The revisions are exact.
    </span>
  </p>
)

const nameOf = (revision: RevisionThen | null): string => (revision ? `r${revision.number}` : 'nothing')

const RevisionLine = ({ revision }: { revision: RevisionThen }) => (
  <p class={styles.revision}>
    <strong>r{revision.number}</strong>
    {revision.commit && <code title={revision.commit.sha}>{shortCommit(revision.commit.sha)}</code>}
    {!revision.commit && revision.image_uri && <code title={revision.image_uri}>{shortImage(revision.image_uri)}</code>}
    {revision.commit?.message && (
      <span title={revision.commit.message}>{revision.commit.message.split('\n', 1)[0]}</span>
    )}
  </p>
)

/** Marks a value that is different now. */
const Since = ({ show, children }: { show: boolean; children: ComponentChildren }) =>
  show ? (
    <p class={styles.since}>
      <Badge tone="warn">Now</Badge> {children}
    </p>
  ) : null

type FactProps = { past: MomentState; present: MomentState; isNow: boolean }

function Served({ moment, past, isNow }: { moment: Moment; past: MomentState; isNow: boolean }) {
  const { served } = past
  const current = moment.present.served
  const isOther = !isNow && served?.id !== current?.id
  const compare = `/deployments/${moment.deployment_id}/compare`
  return (
    <Card title={<span class={styles.label}>{isNow ? 'Serves' : 'Served'}</span>}>
      <div class={styles.fact}>
        {served ? (
          <>
            <RevisionLine revision={served} />
            <p class={styles.detail}>
              Since <time dateTime={served.since}>{formatShort(served.since)}</time>
              {!isNow && `, for ${formatAge((Date.parse(moment.at) - Date.parse(served.since)) / 1000)}`}
            </p>
          </>
        ) : (
          <p class={styles.none}>{isNow ? 'Not serving.' : 'Was not serving.'}</p>
        )}
        <Since show={isOther}>
          {current ? `r${current.number} serves, since ${formatShort(current.since)}` : 'not serving'}
        </Since>
        {isOther && served && (
          <div class={styles.actions}>
            {current && (
              <ButtonLink small href={toAddress(`${compare}?from=${served.number}&to=${current.number}`)}>
                Compare {nameOf(served)} with now
              </ButtonLink>
            )}
            <ButtonLink
              small
              href={toAddress(`${compare}?from=${current?.number ?? served.number}&to=${served.number}`)}
            >
              Roll back to {nameOf(served)}
            </ButtonLink>
          </div>
        )}
      </div>
    </Card>
  )
}

function Wanted({ past, present, isNow }: FactProps) {
  const { latest, wanted } = past
  return (
    <Card title={<span class={styles.label}>{isNow ? 'Desired' : 'Was desired'}</span>}>
      <div class={styles.fact}>
        {latest ? <RevisionLine revision={latest} /> : <p class={styles.none}>No revision.</p>}
        {latest && (
          <StateLabel
            state={
              latest.status
                ? stateOfRevision({ status: latest.status })
                : { word: 'State not recorded', tone: 'idle', shape: 'diamond' }
            }
          />
        )}
        {wanted && <Configuration wanted={wanted} />}
        <Since show={!isNow && latest?.id !== present.latest?.id}>
          {present.latest ? `r${present.latest.number} is desired` : 'no revision'}
        </Since>
      </div>
    </Card>
  )
}

function Configuration({ wanted }: { wanted: NonNullable<MomentState['wanted']> }) {
  const { source_config, source_revision_config, secrets } = wanted
  const members = { ...source_config, ...source_revision_config }
  const set = Object.entries(members).filter(([, value]) => value !== null)
  return (
    <details class={styles.configuration}>
      <summary>
        {set.length} settings, {secrets.length} {secrets.length === 1 ? 'secret' : 'secrets'}
      </summary>
      <dl>
        {set.map(([name, value]) => (
          <div key={name}>
            <dt>
              <code>{name}</code>
            </dt>
            <dd>{formatValue(value)}</dd>
          </div>
        ))}
        {secrets.map(({ name, version }) => (
          <div key={name}>
            <dt>
              <code>{name}</code>
            </dt>
            <dd>secret, version {version}</dd>
          </div>
        ))}
      </dl>
    </details>
  )
}

function Truth({ past, present, isNow }: FactProps) {
  const state = stateAtMoment(past)
  const current = stateAtMoment(present)
  const { hold, healthy, in_flight, waiting, served } = past
  const facts: [string, string][] = [
    ['Health', served === null ? '–' : healthy === null ? 'unknown' : healthy ? 'healthy' : 'unhealthy'],
    ['Listener', past.status === null ? 'unknown' : past.status === 'UNKNOWN' ? 'silent' : 'heard'],
    ['In progress', in_flight ? `${nameOf(in_flight)}, ${wordOf(in_flight)}` : 'nothing'],
    ['Waiting', waiting ? `${nameOf(waiting)}, ${wordOf(waiting)}` : 'nothing'],
    ['Hold', hold ? `since ${formatShort(hold.since)}` : past.unknown.includes('hold') ? 'unknown' : 'none'],
  ]
  return (
    <Card title={<span class={styles.label}>{isNow ? 'Observed' : 'Was observed'}</span>}>
      <div class={styles.fact}>
        <StateLabel state={state} large />
        <dl class={styles.truth}>
          {facts.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
        <Since show={!isNow && state.word !== current.word}>{current.word.toLowerCase()}</Since>
      </div>
    </Card>
  )
}
const wordOf = ({ status }: RevisionThen): string =>
  status ? stateOfRevision({ status }).word.toLowerCase() : 'state not recorded'

const Differences = ({ changes }: Pick<Moment, 'changes'>) => (
  <Card class={styles.block} title="Configuration changes since then">
    {changes.length === 0 ? (
      <p class={styles.nothing}>No changes.</p>
    ) : (
      <table class={styles.table}>
        <thead>
          <tr>
            <th scope="col">Setting</th>
            <th scope="col">Then</th>
            <th scope="col">Now</th>
          </tr>
        </thead>
        <tbody>
          {changes.map(({ path, before, after }) => (
            <tr key={path}>
              <th scope="row">
                <code>{path}</code>
              </th>
              <td>
                <Value path={path} value={before} />
              </td>
              <td>
                <Value path={path} value={after} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    )}
  </Card>
)

const Value = ({ path, value }: { path: string; value: unknown }) => {
  if (value === null || value === undefined) return <span class={styles.absent}>not set</span>
  return <code>{path.startsWith('secrets.') ? `version ${value}` : formatValue(value)}</code>
}
const formatValue = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

/** The marks next to a moment, newest first, each a link to it. */
function Around({ marks, at, isNow }: { marks: Mark[]; at: number; isNow: boolean }) {
  const next = marks.findIndex(mark => mark.at > at)
  const place = next === -1 ? marks.length : next
  const shown = marks.slice(Math.max(0, place - (isNow ? 2 : 1) * SHOWN_AROUND), place + SHOWN_AROUND).toReversed()
  return (
    <Card class={styles.block} title={isNow ? 'The last changes' : 'Around this time'}>
      {shown.length === 0 && <p class={styles.nothing}>No changes recorded.</p>}
      <MarkList marks={shown} at={at} />
    </Card>
  )
}

export const MarkList = ({ marks, at }: { marks: Mark[]; at: number }) => (
  <ol class={styles.marks}>
    {marks.map((mark, i) => (
      <li key={mark.key} class={mark.at <= at && (i === 0 || marks[i - 1]!.at > at) ? styles.current : undefined}>
        <Glyph shape={mark.state.shape} tone={mark.state.tone} />
        <div>
          <MomentLink at={mark.at}>{mark.title}</MomentLink>
          {mark.detail && (
            <p title={mark.detail}>
              <Prose text={mark.detail} />
            </p>
          )}
        </div>
        <div class={styles.by}>
          <time dateTime={toMoment(mark.at)} title={formatExact(mark.at)}>
            {formatShort(mark.at)}
          </time>
          <span title={mark.by}>{mark.by}</span>
        </div>
      </li>
    ))}
  </ol>
)

/** Keeps the other filters of the address. */
function MomentLink({ at, children }: { at: number; children: ComponentChildren }) {
  const params = new URLSearchParams(location.search)
  params.set('at', toMoment(at))
  const [, , , ...screen] = location.pathname.split('/')
  return (
    <Link class={styles.link} to={`/${screen.join('/')}?${params}`}>
      {children}
    </Link>
  )
}
