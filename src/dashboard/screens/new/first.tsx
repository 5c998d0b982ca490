// Follows the first revision of a deployment until its URL answers, or says why it does not.
import type { ComponentChildren } from 'preact'
import { isMissing, useRead } from '../../api/queries.ts'
import { useCommands } from '../../commands/commands.ts'
import { hostOf } from '../../format/source.ts'
import { type Deployment, isInFlight, type Revision, stateOfDeployment } from '../../format/state.ts'
import { formatSeconds } from '../../format/time.ts'
import { ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Glyph } from '../../parts/icon.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Prose } from '../../parts/prose.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Running } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import { listReasons } from '../deployments/explain.ts'
import { Remedies } from '../deployments/remedies.tsx'
import { SHOWN_REVISIONS } from '../deployments/shown-revisions.ts'
import type { ScreenProps } from '../screen-props.ts'
import type { FilesProps } from './files-again.tsx'
import { LastLines } from './last-lines.tsx'
import styles from './new.module.css'
import { NextSteps } from './next-steps.tsx'
import { NoAgent } from './no-agent.tsx'
import { ProgressBar } from './progress.tsx'
import { awaitsFiles, hasFailed, listSteps, type Step } from './steps.ts'
import { startUpload, type UploadJob, uploadJobs } from './upload-job.ts'

const FilesAgain = lazily<FilesProps>(() => import('./files-again.tsx'))

export default function FirstDeployment({ workspace, params, me }: ScreenProps<{ deployment: string }>) {
  const ref = { params: { deployment_id: params.deployment } }
  const { data: deployment, error, refetch } = useRead(workspace, 'GET /v2/deployments/{deployment_id}', ref)
  const list = { ...ref, query: { limit: SHOWN_REVISIONS } }
  const { data: revisions } = useRead(workspace, 'GET /v2/deployments/{deployment_id}/revisions', list)
  useCrumbs({ label: 'Deployments', to: '/deployments' }, { label: deployment?.name ?? '…' })
  if (isMissing(error))
    return (
      <Empty
        title="Deployment not found"
        action={<ButtonLink href={toAddress('/deployments')}>Open the deployments</ButtonLink>}
      >
        The deployment was deleted, or it is in another workspace.
      </Empty>
    )
  if (error && !deployment) return <Problem error={error} onRetry={() => void refetch()} />
  const latest = revisions?.resources[0]
  if (!deployment || !latest) return <Skeleton lines={8} />
  return <Follow workspace={workspace} me={me} deployment={deployment} latest={latest} />
}

type FollowProps = Pick<ScreenProps, 'workspace' | 'me'> & { deployment: Deployment; latest: Revision }
function Follow({ workspace, me, deployment, latest }: FollowProps) {
  const { id, name, url } = deployment
  const job = uploadJobs.value.get(id)
  const steps = listSteps(deployment, latest)
  const isServing = steps.at(-1)!.state === 'done'
  const needsFiles = awaitsFiles(deployment, latest) && (!job || job.state === 'failed')
  useCommands(
    url && isServing
      ? [{ id: 'visit', label: `Open ${hostOf(url)}`, kind: 'page', keys: 'o', run: () => open(url) }]
      : [],
  )
  return (
    <div class={styles.form}>
      <header class={styles.head}>
        <h1>{name}</h1>
        <StateLabel state={stateOfDeployment(deployment, latest)} large />
        <ButtonLink href={toAddress(`/deployments/${id}`)}>Open the deployment</ButtonLink>
      </header>
      {isServing && url && (
        <section class={styles.answers} aria-label="URL">
          <Glyph shape="check" tone="ok" />
          <div>
            <h2>The application responds at</h2>
            <a href={url} target="_blank" rel="noreferrer">
              {url}
            </a>
          </div>
          <ButtonLink href={url} look="primary" icon="out" hint="O" target="_blank" rel="noreferrer">
            Visit
          </ButtonLink>
        </section>
      )}
      <Card title={`Revision ${latest.number}`} aside={describeTotal(steps)}>
        <ol class={styles.steps} aria-live="polite">
          {steps.map(step => (
            <StepRow key={step.name} step={step}>
              {step.state === 'running' && <StepDetail step={step} latest={latest} job={job} />}
            </StepRow>
          ))}
        </ol>
        {isInFlight(latest) && !awaitsFiles(deployment, latest) && <NoAgent workspace={workspace} />}
      </Card>
      {needsFiles && <FilesAgain deployment={deployment} job={job} onUpload={archive => startUpload(id, archive)} />}
      {hasFailed(latest) && <Failure workspace={workspace} deployment={deployment} latest={latest} />}
      <LastLines deployment={id} revision={latest.id} isEnded={!isInFlight(latest)} />
      {isServing && <NextSteps workspace={workspace} me={me} />}
    </div>
  )
}

const TONES = { done: 'ok', running: 'busy', failed: 'bad', ahead: 'idle' } as const
const SHAPES = { done: 'check', running: 'arc', failed: 'octagon', ahead: 'ring' } as const

const StepRow = ({ step, children }: { step: Step; children: ComponentChildren }) => (
  <li class={step.state === 'ahead' ? styles.ahead : undefined}>
    <Glyph shape={SHAPES[step.state]} tone={TONES[step.state]} />
    <b>{step.name}</b>
    <span class={styles.unseen}>, {step.state}</span>
    <span class={styles.seconds}>
      {step.since ? <Running since={step.since} /> : step.seconds > 0 && formatSeconds(step.seconds)}
    </span>
    {children && <div class={styles.stepDetail}>{children}</div>}
  </li>
)

function StepDetail({ step, latest, job }: { step: Step; latest: Revision; job: UploadJob | undefined }) {
  if (step.name === 'Upload') {
    if (job?.state === 'uploading')
      return <ProgressBar text="Uploading the files" done={job.sent} total={job.size} onCancel={job.cancel} />
    return <p>{job?.state === 'applying' ? 'The files are stored.' : 'The files are missing.'}</p>
  }
  if (latest.status_message)
    return (
      <p>
        <Prose text={latest.status_message} />
      </p>
    )
  return <p>{RUNNING_TEXTS[step.name]}</p>
}
const RUNNING_TEXTS: Partial<Record<Step['name'], string>> = {
  Waiting: 'An agent picks it up within seconds.',
  Building: 'The build runs. The log below shows its output.',
  Deploying: 'The application starts. Waiting until it is healthy.',
}

function describeTotal(steps: Step[]): string | undefined {
  const seconds = steps.reduce((sum, step) => sum + step.seconds, 0)
  return steps.at(-1)!.state === 'done' ? `Took ${formatSeconds(seconds)}` : undefined
}

function Detail({ text }: { text: string }) {
  const end = text.indexOf('\n')
  return (
    <>
      <p>
        <Prose text={end === -1 ? text : text.slice(0, end)} />
      </p>
      {end !== -1 && <pre class={styles.quoted}>{text.slice(end + 1)}</pre>}
    </>
  )
}

function Failure({ workspace, deployment, latest }: { workspace: string; deployment: Deployment; latest: Revision }) {
  const ref = { params: { deployment_id: deployment.id } }
  const { data } = useRead(workspace, 'GET /v2/deployments/{deployment_id}/explain', ref)
  const job = uploadJobs.value.get(deployment.id)
  const isUploading = job?.state === 'uploading' || job?.state === 'applying'
  const reasons = data ? listReasons(data, deployment, [latest]) : []
  return (
    <>
      <Card
        tone="bad"
        title={
          <>
            <Glyph shape="octagon" tone="bad" />
            The deployment is not serving
          </>
        }
      >
        <ul class={styles.reasons}>
          {reasons.map(({ code, title, detail, remedies }) => (
            <li key={code}>
              <h3>{title}</h3>
              <Detail text={detail} />
              {code === 'revision_failed' && <p class={styles.advice}>{adviseAfter(deployment, latest)}</p>}
              <span class={styles.noteActions}>
                <Remedies remedies={remedies} />
              </span>
            </li>
          ))}
        </ul>
      </Card>
      {deployment.source === 'internal_source' &&
        (isUploading ? (
          <ProgressBar text="Uploading the files" done={job.sent} total={job.size} onCancel={job.cancel} />
        ) : (
          <FilesAgain
            deployment={deployment}
            job={job?.state === 'failed' ? job : undefined}
            onUpload={archive => startUpload(deployment.id, archive)}
          />
        ))}
    </>
  )
}

/** For a revision that has failed. */
function adviseAfter(deployment: Deployment, latest: Revision): string {
  const { source } = deployment
  const { status } = latest
  // The agent refused the revision before any command ran, and its reason has the remedy.
  if (listSteps(deployment, latest).some(({ name, state }) => name === 'Waiting' && state === 'failed')) {
    const isImage = source === 'internal_container' || source === 'external_container'
    return isImage
      ? 'The application never started. The listener cannot be changed: create another deployment on a listener ' +
          'that can run it.'
      : 'The application never started. See the reason above.'
  }
  const correct = {
    githost: 'Push a fix. It deploys automatically if pushes deploy.',
    internal_source: 'Fix the files, and choose the folder again.',
    internal_template: 'Deploy again, or try your own folder with the command line.',
    internal_container: 'Push a fixed image, and deploy again.',
    external_container: 'Push a fixed image, and deploy again.',
  }[source]
  if (status === 'BUILD_FAILED') return `The log below ends with the reason. ${correct}`
  if (status === 'DEPLOY_FAILED') return `The application must listen on the port in PORT. ${correct}`
  return correct
}
