// A deployment: the serving revision, progress, obstacles, and the last revisions.
import { describeProcessHealth, listProcesses } from '../../../client/process-copies.ts'
import { useRead } from '../../api/queries.ts'
import { describeReasons } from '../../format/reasons.ts'
import { describeActor, shortCommit, shortImage } from '../../format/source.ts'
import { type Deployment, isInFlight, type Revision, stateOfRevision } from '../../format/state.ts'
import { formatExact, formatSeconds, formatShort } from '../../format/time.ts'
import { ActionButton } from '../../parts/action.tsx'
import { ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Glyph } from '../../parts/icon.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { CommandLine, Skeleton } from '../../parts/panel.tsx'
import { Prose } from '../../parts/prose.tsx'
import { Badge, StateLabel } from '../../parts/state.tsx'
import { Ago, now } from '../../parts/time.tsx'
import { Link, toAddress } from '../../router/links.tsx'
import { OpenIncidents } from '../alerts/open-incidents.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { deleteDeployment, deployCommandOf, interrupt } from './actions.ts'
import { RevisionButtons } from './change-buttons.tsx'
import styles from './deployment.module.css'
import { listReasons, type Reason, toneOf } from './explain.ts'
import { DeploymentFrame } from './frame.tsx'
import { isSlow, listStages, type Stage } from './pipeline.ts'
import { Remedies } from './remedies.tsx'
import { SHOWN_REVISIONS } from './shown-revisions.ts'
import type { TrafficProps } from './traffic.tsx'

const Traffic = lazily<TrafficProps>(() => import('./traffic.tsx'))

const SILENT_MS = 10_000

export default function Overview({ workspace, params }: ScreenProps<{ deployment: string }>) {
  return (
    <DeploymentFrame workspace={workspace} id={params.deployment} tab="">
      {(deployment, revisions) => <Content workspace={workspace} deployment={deployment} revisions={revisions} />}
    </DeploymentFrame>
  )
}

function Content({ workspace, deployment, revisions }: CardProps & { workspace: string }) {
  const ref = { params: { deployment_id: deployment.id } }
  const explanation = useRead(workspace, 'GET /v2/deployments/{deployment_id}/explain', ref, {
    // Polls of a listener have no event.
    everyMs: reply => (reply?.resources.some(({ code }) => code === 'listener_silent') ? SILENT_MS : false),
  })
  return (
    <>
      <div class={styles.pair}>
        <ServingCard workspace={workspace} deployment={deployment} revisions={revisions} />
        <FlightCard workspace={workspace} deployment={deployment} revisions={revisions} />
      </div>
      {deployment.traffic.length > 1 && (
        <div class={styles.reasonsCard}>
          <Traffic deployment={deployment} revisions={revisions} />
        </div>
      )}
      <OpenIncidents workspace={workspace} deployment={deployment.id} />
      {explanation.data && (
        <Reasons reasons={listReasons(explanation.data, deployment, revisions)} deployment={deployment} />
      )}
      <RevisionsCard workspace={workspace} deployment={deployment} revisions={revisions} />
      <footer class={styles.foot}>
        <p>
          Created <Ago time={deployment.created_at} suffix=" ago" />. Id <code>{deployment.id}</code>
        </p>
        <ActionButton small look="bare" action={deleteDeployment(deployment)} />
      </footer>
    </>
  )
}

const RevisionName = ({ revision }: { revision: Revision }) => {
  const { number, commit, source_revision_config } = revision
  const image = source_revision_config.image_uri
  return (
    <p class={styles.revision}>
      <strong>r{number}</strong>
      {commit && <code>{shortCommit(commit.sha)}</code>}
      {!commit && image && <code>{shortImage(image)}</code>}
    </p>
  )
}

/** Until it was deployed or ended. */
const tookSeconds = ({ states }: Revision): number => states.reduce((sum, { seconds }) => sum + (seconds ?? 0), 0)

const describeContent = ({ commit, reasons }: Revision): string =>
  commit?.message?.split('\n', 1)[0] || describeReasons(reasons)

type CardProps = { deployment: Deployment; revisions: Revision[] }

function ServingCard({ workspace, deployment, revisions }: CardProps & { workspace: string }) {
  const { id, active_revision_id: active } = deployment
  const listed = revisions.find(revision => revision.id === active)
  const read = useRead(
    workspace,
    'GET /v2/deployments/{deployment_id}/revisions/{revision_id}',
    { params: { deployment_id: id, revision_id: active ?? '' } },
    { enabled: active !== null && !listed },
  )
  const serving = listed ?? read.data
  const since = serving?.states.findLast(({ status }) => status === 'DEPLOYED')?.since ?? serving?.updated_at
  return (
    <Card title={<span class={styles.label}>Serving</span>} aside={serving && <ServingBadge deployment={deployment} />}>
      {active === null ? (
        <p class={styles.nothing}>No revision is serving. Requests are refused until a revision is deployed.</p>
      ) : serving ? (
        <div class={styles.serving}>
          <RevisionName revision={serving} />
          <p class={styles.content}>{describeContent(serving)}</p>
          <dl>
            <dt>Since</dt>
            <dd>
              <time dateTime={since} title={formatExact(since!)}>
                {formatShort(since!)}
              </time>{' '}
              (<Ago time={since!} suffix=" ago" />)
            </dd>
            <dt>By</dt>
            <dd>{describeActor(serving.actor)}</dd>
            <dt>Processes</dt>
            <dd>{describeProcesses(serving, deployment)}</dd>
            {deployment.image_version && (
              <>
                <dt>Image</dt>
                <dd>
                  <code>{shortImage(deployment.image_version)}</code>
                </dd>
              </>
            )}
          </dl>
        </div>
      ) : (
        <Skeleton lines={3} height={20} />
      )}
    </Card>
  )
}

const describeProcesses = ({ build_plan }: Pick<Revision, 'build_plan'>, { source_config, health }: Deployment) =>
  listProcesses(build_plan, source_config.resource_spec, health)
    .map(({ name, copies }) => `${name}\u00a0×\u00a0${copies}${describeProcessHealth(name, health)}`)
    .join(', ')

const ServingBadge = ({ deployment: { serving, hold } }: { deployment: Deployment }) => {
  if (hold) return <Badge tone="warn">Held</Badge>
  return serving === 'current' ? <Badge tone="ok">The latest</Badge> : <Badge tone="idle">Not the latest</Badge>
}

function FlightCard({ workspace, deployment, revisions }: CardProps & { workspace: string }) {
  const inFlight = revisions.findLast(isInFlight)
  const waiting = revisions.filter(revision => isInFlight(revision) && revision !== inFlight)
  const [latest] = revisions
  const shown = inFlight ?? (latest && latest.status !== 'DEPLOYED' ? latest : undefined)
  if (!shown) {
    const deployed = latest && listStages(latest, revisions.slice(1))
    const command = deployCommandOf(deployment)
    return (
      <Card title={<span class={styles.label}>In progress</span>}>
        <div class={styles.calm}>
          <p>
            {latest
              ? `No deploy in progress. r${latest.number} took ${formatSeconds(tookSeconds(latest))}:`
              : 'No revision yet.'}
          </p>
          {deployed && deployed.length > 0 && <Stages stages={deployed} />}
          {command && <CommandLine command={command} />}
        </div>
      </Card>
    )
  }
  const earlier = revisions.filter(({ number }) => number < shown.number)
  return (
    <Card
      title={
        <>
          <span class={styles.label}>{inFlight ? 'In progress' : 'Last attempt'}</span>
          <RevisionName revision={shown} />
          <span class={styles.content}>{describeContent(shown)}</span>
        </>
      }
      aside={inFlight && <ActionButton small icon="stop" action={interrupt(deployment, inFlight)} />}
    >
      <div class={styles.flight}>
        <div class={styles.now}>
          <StateLabel state={stateOfRevision(shown)} />
          {shown.status === 'INTERRUPTED' && <InterruptionEnd workspace={workspace} deployment={deployment} />}
          {/* The reasons below have the message of a revision that has ended. */}
          {inFlight?.status_message && (
            <p>
              <Prose text={inFlight.status_message} />
            </p>
          )}
        </div>
        <Stages stages={listStages(shown, earlier)} />
        <p class={styles.facts}>
          <span>
            By {describeActor(shown.actor)}, <Ago time={shown.created_at} suffix=" ago" />
          </span>
          {waiting.map(revision => (
            <span key={revision.id} class={styles.waiting}>
              r{revision.number} is queued behind it{' '}
              <ActionButton small look="bare" action={interrupt(deployment, revision)} />
            </span>
          ))}
        </p>
      </div>
    </Card>
  )
}

const CONFIRM_MS = 3_000

/** An interruption is recorded at once. The data plane stops the work later, without an event. */
function InterruptionEnd({ workspace, deployment }: { workspace: string; deployment: Deployment }) {
  const include: ['summary'] = ['summary']
  const { data } = useRead(
    workspace,
    'GET /v2/deployments/{deployment_id}',
    { params: { deployment_id: deployment.id }, query: { include } },
    { everyMs: reply => (reply?.summary?.remote_reconciled === false ? CONFIRM_MS : false) },
  )
  if (!data?.summary) return null
  return (
    <p role="status">
      {data.summary.remote_reconciled
        ? 'Stopped. The data plane has confirmed it.'
        : 'Stopping. The data plane has not confirmed it yet.'}
    </p>
  )
}

const Stages = ({ stages }: { stages: Stage[] }) => (
  <ol class={styles.stages}>
    {stages.map(stage => (
      <StageView key={stage.name} stage={stage} />
    ))}
  </ol>
)

const TONES = { done: 'ok', running: 'busy', failed: 'bad', ahead: 'idle' } as const
const SHAPES = { done: 'check', running: 'arc', failed: 'octagon', ahead: 'ring' } as const
const WORDS = { done: 'done', running: 'running', failed: 'failed', ahead: 'ahead' } as const

function StageView({ stage: { name, state, seconds: whole, since, median } }: { stage: Stage }) {
  const running = since ? Math.max(0, (now.value - Date.parse(since)) / 1000) : 0
  const seconds = whole + (since ? Math.floor(running) : 0)
  const slow = state !== 'failed' && isSlow(seconds, median)
  const full = Math.max(seconds, (median ?? seconds) * 1.6, 0.001)
  const tone = slow ? 'warn' : TONES[state]
  return (
    <li class={styles.stage}>
      <svg class={styles.track} viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
        <rect class={styles.bed} width="100" height="6" rx="1" />
        <rect class={styles[tone]} width={(seconds / full) * 100} height="6" rx="1" />
        {median !== undefined && <rect class={styles.tick} x={(median / full) * 100} y="-3" width="0.8" height="12" />}
      </svg>
      <span class={styles.stageName}>
        <Glyph shape={SHAPES[state]} tone={TONES[state]} />
        {name}
        <span class={styles.unseen}>, {WORDS[state]}</span>
      </span>
      <strong>{state === 'ahead' ? '–' : formatSeconds(seconds)}</strong>
      <span class={slow ? styles.slow : styles.median}>{compareToMedian(seconds, median, slow)}</span>
    </li>
  )
}

function compareToMedian(seconds: number, median: number | undefined, slow: boolean): string {
  if (median === undefined) return 'No median yet'
  return slow ? `${formatSeconds(seconds - median)} slower than median` : `Median ${formatSeconds(median)}`
}

function Reasons({ reasons, deployment }: { reasons: Reason[]; deployment: Deployment }) {
  if (reasons.length === 0) return null
  const tone = toneOf(reasons)
  return (
    <Card
      class={styles.reasonsCard}
      tone={tone}
      title={
        <>
          <span class={styles.reasonsTitle}>
            <Glyph shape={tone === 'bad' ? 'octagon' : tone === 'warn' ? 'triangle' : 'queued'} tone={tone ?? 'busy'} />
            {deployment.serving === 'current' ? 'Needs attention' : 'Why the latest revision is not serving'}
          </span>
          {deployment.serving !== 'current' && <span class={styles.content}>{describeServing(deployment)}</span>}
        </>
      }
    >
      <ol class={styles.reasons}>
        {reasons.map(({ code, about, title, detail, remedies }) => (
          <li key={code}>
            <div>
              <h3>
                {title} <span class={styles.about}>{about}</span>
              </h3>
              <p>
                <Prose text={detail} />
              </p>
            </div>
            <div class={styles.remedies}>
              <Remedies remedies={remedies} />
            </div>
          </li>
        ))}
      </ol>
    </Card>
  )
}

const describeServing = ({ serving }: Deployment): string =>
  serving === 'none' ? 'Not serving' : 'The previous revision keeps serving'

function RevisionsCard({ workspace, deployment, revisions }: CardProps & { workspace: string }) {
  return (
    <Card
      title="Revisions"
      aside={
        <>
          {revisions.length === SHOWN_REVISIONS && `The last ${SHOWN_REVISIONS}`}
          {revisions.length > 1 && (
            <ButtonLink small href={toAddress(`/deployments/${deployment.id}/compare`)}>
              Compare
            </ButtonLink>
          )}
        </>
      }
    >
      {revisions.length === 0 && <p class={styles.nothing}>No revisions yet. The first deploy creates one.</p>}
      <ol class={styles.revisions}>
        {revisions.map(revision => (
          <RevisionRow
            key={revision.id}
            workspace={workspace}
            deployment={deployment}
            revision={revision}
            isServing={revision.id === deployment.active_revision_id}
          />
        ))}
      </ol>
    </Card>
  )
}

type RevisionRowProps = { workspace: string; deployment: Deployment; revision: Revision; isServing: boolean }
function RevisionRow({ workspace, deployment, revision, isServing }: RevisionRowProps) {
  const state = stateOfRevision(revision)
  const { number, commit, created_at, actor, states, status } = revision
  return (
    <li class={isServing ? styles.current : undefined}>
      <Glyph {...(status === 'DEPLOYED' && !isServing ? { shape: 'ring', tone: 'idle' } : state)} />
      <Link class={styles.number} to={`/deployments/${deployment.id}/revisions/${number}`}>
        r{number}
      </Link>
      <div class={styles.what}>
        <p>
          {commit && <code>{shortCommit(commit.sha)}</code>} {describeContent(revision)}{' '}
          {isServing && <Badge tone="ok">Serving</Badge>}
        </p>
        <p class={styles.detail}>
          {status === 'DEPLOYED' && commit ? describeReasons(revision.reasons) : state.word}
          {revision.status_message && (
            <>
              {': '}
              <Prose text={revision.status_message} />
            </>
          )}
        </p>
      </div>
      <span class={styles.took}>
        {states.length > 1 && !isInFlight(revision) && `Took ${formatSeconds(tookSeconds(revision))}`}
      </span>
      <div class={styles.when}>
        <Ago time={created_at} />
        <span title={describeActor(actor)}>{describeActor(actor)}</span>
      </div>
      <span class={styles.rowActions}>
        <RevisionButtons workspace={workspace} deployment={deployment} revision={revision} small />
      </span>
    </li>
  )
}
