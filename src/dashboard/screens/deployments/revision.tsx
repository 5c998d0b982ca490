// A revision: its timeline, configuration and actions.
import { flattenChanges } from '../../../client/changes.ts'
import { describeReasons } from '../../format/reasons.ts'
import { describeActor, shortCommit, shortImage } from '../../format/source.ts'
import { type Deployment, isInFlight, type Revision, stateOfRevision } from '../../format/state.ts'
import { formatExact, formatSeconds, formatShort } from '../../format/time.ts'
import { ActionButton } from '../../parts/action.tsx'
import { ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { formatValue } from '../../parts/diff.tsx'
import { Glyph } from '../../parts/icon.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Prose } from '../../parts/prose.tsx'
import { Badge, StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { Link, toAddress } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { interrupt } from './actions.ts'
import { RevisionButtons } from './change-buttons.tsx'
import { DeploymentFrame } from './frame.tsx'
import styles from './revision.module.css'
import { useRevision } from './revision-number.ts'

const RolloutRecord = lazily<{ rollout: NonNullable<Revision['rollout']> }>(() => import('./rollout.tsx'))

export default function RevisionPage({ workspace, params }: ScreenProps<{ deployment: string; number: string }>) {
  return (
    <DeploymentFrame workspace={workspace} id={params.deployment} tab="" page={`r${params.number}`}>
      {(deployment, revisions) => (
        <Content workspace={workspace} deployment={deployment} revisions={revisions} number={Number(params.number)} />
      )}
    </DeploymentFrame>
  )
}

type ContentProps = { workspace: string; deployment: Deployment; revisions: Revision[]; number: number }

function Content({ workspace, deployment, revisions, number }: ContentProps) {
  const { revision, isMissing } = useRevision(workspace, deployment.id, revisions, number)
  const page = `/deployments/${deployment.id}`
  if (isMissing)
    return (
      <Empty
        title={`${deployment.name} does not have this revision`}
        action={<ButtonLink href={toAddress(page)}>Open the deployment</ButtonLink>}
      >
        Revisions are numbered from 1 to {revisions[0]?.number ?? 0}.
      </Empty>
    )
  if (!revision) return <Skeleton lines={6} />
  const { id, commit, actor, reasons, status_message, created_at, states } = revision
  const isServing = id === deployment.active_revision_id
  const logs = (kind: string) => toAddress(`${page}/logs?revision=${id}&kind=${kind}`)
  return (
    <div class={styles.page}>
      <Card
        title={
          <>
            <span class={styles.number}>r{number}</span>
            <StateLabel state={stateOfRevision(revision)} />
            {isServing && <Badge tone="ok">Serving</Badge>}
          </>
        }
        aside={isInFlight(revision) && <ActionButton small icon="stop" action={interrupt(deployment, revision)} />}
      >
        {status_message && (
          <p class={styles.message}>
            <Prose text={status_message} />
          </p>
        )}
        <dl class={styles.facts}>
          <Fact label="Created">
            <time dateTime={created_at} title={formatExact(created_at)}>
              {formatShort(created_at)}
            </time>{' '}
            (<Ago time={created_at} suffix=" ago" />
            ), {describeActor(actor)}
          </Fact>
          <Fact label="Why">{describeReasons(reasons)}</Fact>
          {commit && (
            <Fact label="Commit">
              <code title={commit.sha}>{shortCommit(commit.sha)}</code> {commit.message?.split('\n', 1)[0]}
            </Fact>
          )}
          {revision.source_revision_config.image_uri && (
            <Fact label="Image">
              <code title={revision.source_revision_config.image_uri}>
                {shortImage(revision.source_revision_config.image_uri)}
              </code>
            </Fact>
          )}
        </dl>
        <div class={styles.actions}>
          <RevisionButtons workspace={workspace} deployment={deployment} revision={revision} />
          {number > 1 && (
            <ButtonLink href={toAddress(`${page}/compare?from=${number - 1}&to=${number}`)}>
              What r{number} changed
            </ButtonLink>
          )}
          <ButtonLink href={logs('build')}>Build log</ButtonLink>
          <ButtonLink href={logs('deploy')}>Run log</ButtonLink>
        </div>
      </Card>
      <Card title="Timeline">
        <ol class={styles.states}>
          {states.map(({ status, since, seconds }, i) => (
            <li key={since + status}>
              <Glyph {...(i < states.length - 1 ? PASSED : stateOfRevision({ status }))} />
              <span>{stateOfRevision({ status }).word}</span>
              <time dateTime={since} title={formatExact(since)}>
                {formatShort(since)}
              </time>
              <b>{seconds === null ? '' : formatSeconds(seconds)}</b>
            </li>
          ))}
        </ol>
      </Card>
      {revision.rollout && <RolloutRecord rollout={revision.rollout} />}
      {revision.build_plan && <Plan plan={revision.build_plan} />}
      <Configuration revision={revision} />
      <nav class={styles.neighbors} aria-label="Revisions">
        {number > 1 && <Link to={`${page}/revisions/${number - 1}`}>r{number - 1}, the one before</Link>}
        {number < (revisions[0]?.number ?? 0) && (
          <Link to={`${page}/revisions/${number + 1}`}>r{number + 1}, the next</Link>
        )}
      </nav>
    </div>
  )
}

const Fact = ({ label, children }: { label: string; children: preact.ComponentChildren }) => (
  <div>
    <dt>{label}</dt>
    <dd>{children}</dd>
  </div>
)

/** A state that another one followed. */
const PASSED = { shape: 'check', tone: 'ok' } as const

function Plan({ plan }: { plan: NonNullable<Revision['build_plan']> }) {
  const { root, tools, install, build, release, start, processes, site, certain, guessed, warnings } = plan
  const steps = {
    root,
    tools: tools.map(({ name, version }) => [name, version].filter(Boolean).join(' ')).join(', '),
    install,
    build,
    release,
    start,
    ...Object.fromEntries((processes ?? []).map(({ name, command }) => [name, command])),
    files: site && (site.folder || '.'),
  }
  const sentences = [...certain, ...guessed.map(sentence => `Guessed: ${sentence}`), ...warnings]
  return (
    <Card title="Build plan">
      <dl class={styles.configuration}>
        {Object.entries(steps).map(
          ([name, text]) =>
            text && (
              <Fact key={name} label={name}>
                <code>{text}</code>
              </Fact>
            ),
        )}
        <Fact label="why">
          <Prose text={sentences.join(' ')} />
        </Fact>
      </dl>
    </Card>
  )
}

function Configuration({ revision }: { revision: Revision }) {
  const { source_config, source_revision_config, secrets, secret_references } = revision
  const members = flattenChanges([
    { path: 'source_config', before: null, after: source_config },
    { path: 'source_revision_config', before: null, after: source_revision_config },
    { path: 'secret_references', before: null, after: secret_references },
  ]).filter(({ after }) => after !== null && typeof after !== 'undefined')
  return (
    <Card title="Configuration" aside="Secrets by name">
      <dl class={styles.configuration}>
        {members.map(({ path, after }) => (
          <Fact key={path} label={path}>
            <code>{formatValue(after)}</code>
          </Fact>
        ))}
        {secrets.map(({ name, version }) => (
          <Fact key={name} label={`secrets.${name}`}>
            set by r{version}
          </Fact>
        ))}
      </dl>
    </Card>
  )
}
