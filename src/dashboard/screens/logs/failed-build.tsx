// The failure of a revision: the reason, the step and its lines, the duration, and the changes since the last revision
// that was deployed.
import { useMemo } from 'preact/hooks'
import { useRead } from '../../api/queries.ts'
import { describeMember } from '../../format/reasons.ts'
import { shortCommit } from '../../format/source.ts'
import { type Deployment, type Revision, stateOfRevision } from '../../format/state.ts'
import { formatSeconds } from '../../format/time.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Glyph, Icon } from '../../parts/icon.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Prose } from '../../parts/prose.tsx'
import { toAddress } from '../../router/links.tsx'
import { deployAgain } from '../deployments/actions.ts'
import { listStages } from '../deployments/pipeline.ts'
import { toLine } from './blocks.ts'
import { findExcerpt, findStep } from './build-failure.ts'
import styles from './failed-build.module.css'
import { showParts } from './log-lines.tsx'

const READ_LINES = 300
const SHOWN_CHANGES = 6

export const hasFailed = ({ status }: Pick<Revision, 'status'>): boolean => status.endsWith('_FAILED')

type FailedBuildProps = {
  workspace: string
  deployment: Deployment
  revision: Revision
  /** All known revisions, also later ones. */
  revisions: Revision[]
  /** Given if the log is on the same page. */
  onHide?: () => void
}
export function FailedBuild({ workspace, deployment, revision, revisions, onHide }: FailedBuildProps) {
  const log = useRead(workspace, 'GET /v2/deployments/{deployment_id}/logs', {
    params: { deployment_id: deployment.id },
    query: { revision_id: revision.id, tail: READ_LINES, limit: READ_LINES },
  })
  const earlier = revisions.filter(({ number }) => number < revision.number)
  const lines = useMemo(() => log.data?.logs.map(one => toLine(one)) ?? [], [log.data])
  const step = revision.status === 'BUILD_FAILED' ? findStep(lines) : undefined
  const excerpt = useMemo(() => findExcerpt(lines), [lines])
  const stage = listStages(revision, earlier).find(({ state }) => state === 'failed')
  const isLatest = deployment.latest_revision_id === revision.id
  const logPage = (line?: number) =>
    toAddress(
      `/deployments/${deployment.id}/logs?${new URLSearchParams({
        revision: revision.id,
        ...(line !== undefined && { line: String(line) }),
      })}`,
    )
  return (
    <Card
      tone="bad"
      class={styles.card}
      title={
        <>
          <Glyph shape="octagon" tone="bad" />
          {stateOfRevision(revision).word}: r{revision.number}
        </>
      }
      aside={
        <>
          <ButtonLink small href={logPage()}>
            Open the full log
          </ButtonLink>
          {isLatest && !onHide && <ActionButton small icon="again" action={deployAgain(deployment)} />}
          {onHide && <Button small look="bare" icon="cross" aria-label="Hide the error" onClick={onHide} />}
        </>
      }
    >
      <div class={styles.reason}>
        <p>
          <Prose text={revision.status_message ?? 'The agent gave no reason.'} />
        </p>
        <dl>
          {step && (
            <div>
              <dt>Step</dt>
              <dd>
                {step.name}
                {step.command && <code>{step.command}</code>}
              </dd>
            </div>
          )}
          {stage && (
            <div>
              <dt>Failed after</dt>
              <dd>
                {formatSeconds(stage.seconds)}
                <span>{stage.median === undefined ? 'no median yet' : `median ${formatSeconds(stage.median)}`}</span>
              </dd>
            </div>
          )}
          <Changes workspace={workspace} deployment={deployment} revision={revision} earlier={earlier} />
        </dl>
      </div>
      {log.isPending ? (
        <Skeleton lines={6} height={20} />
      ) : excerpt.lines.length === 0 ? (
        <p class={styles.none}>No log lines.</p>
      ) : (
        <ol class={styles.excerpt} aria-label="Log lines around the error">
          {excerpt.lines.map(line => (
            <li key={line.arrival} class={line === excerpt.cause ? styles.cause : undefined}>
              {line === excerpt.cause ? (
                <a
                  href={logPage(line.arrival)}
                  aria-label="Open this line in the log"
                  title="Open this line in the log"
                >
                  <Icon name="right" />
                </a>
              ) : (
                <i />
              )}
              <span>{showParts(line.parts)}</span>
            </li>
          ))}
        </ol>
      )}
    </Card>
  )
}

type ChangesProps = { workspace: string; deployment: Deployment; revision: Revision; earlier: Revision[] }

function Changes({ workspace, deployment, revision, earlier }: ChangesProps) {
  const good = earlier.find(({ status }) => status === 'DEPLOYED')
  const { data } = useRead(
    workspace,
    'GET /v2/deployments/{deployment_id}/revisions/{revision_id}/compare/{other_revision_id}',
    { params: { deployment_id: deployment.id, revision_id: good?.id ?? '', other_revision_id: revision.id } },
    { enabled: good !== undefined },
  )
  if (!good)
    return (
      <div>
        <dt>Changed</dt>
        <dd>No earlier revision was deployed.</dd>
      </div>
    )
  if (!data) return null
  const { commits, changes } = data
  const isSame = !commits && changes.length === 0
  return (
    <div>
      <dt>Changed since r{good.number}, the last that was deployed</dt>
      <dd>
        {isSame && 'No changes. A dependency or the build machine may have changed.'}
        {commits && (
          <span>
            {commits.compare_url ? (
              <a href={commits.compare_url} target="_blank" rel="noreferrer">
                commits {shortCommit(commits.from)} to {shortCommit(commits.to)}
              </a>
            ) : (
              <>
                commits {shortCommit(commits.from)} to {shortCommit(commits.to)}
              </>
            )}
          </span>
        )}
        {changes.slice(0, SHOWN_CHANGES).map(({ path, before, after }) => (
          <span key={path} title={path}>
            {describeMember(path)}{' '}
            {!path.endsWith('source_tarball_path') && (
              <code>
                {shorten(before)} → {shorten(after)}
              </code>
            )}
          </span>
        ))}
        {changes.length > SHOWN_CHANGES && <span>and {changes.length - SHOWN_CHANGES} more</span>}
      </dd>
    </div>
  )
}

const MAX_SHOWN = 40
function shorten(value: unknown): string {
  const text = value == null ? 'none' : typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text
}
