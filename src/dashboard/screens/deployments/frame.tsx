// The frame of all pages of a deployment: heading, actions and tabs.
import type { ComponentChildren } from 'preact'
import { isMissing, useRead } from '../../api/queries.ts'
import { useCommands } from '../../commands/commands.ts'
import { describeSource, hostOf } from '../../format/source.ts'
import { type Deployment, type Revision, stateOfDeployment } from '../../format/state.ts'
import { ActionButton, useAction } from '../../parts/action.tsx'
import { ButtonLink } from '../../parts/button.tsx'
import { Icon } from '../../parts/icon.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import { Tabs } from '../tabs.tsx'
import { deployAgain } from './actions.ts'
import { ChangeButtons } from './change-buttons.tsx'
import { hasDraft } from './draft-store.ts'
import styles from './frame.module.css'
import { SHOWN_REVISIONS } from './shown-revisions.ts'

const DraftBar = lazily(() => import('./draft-bar.tsx'))

/** The part of the address after the deployment. */
type TabPath = (typeof TABS)[number]['path']
const TABS = [
  { path: '', label: 'Overview', keys: 'u' },
  { path: '/logs', label: 'Logs', keys: 'l' },
  { path: '/requests', label: 'Requests', keys: 'q' },
  { path: '/metrics', label: 'Metrics', keys: 'm' },
  { path: '/jobs', label: 'Jobs', keys: 'b' },
  { path: '/graphs', label: 'Graphs', keys: 'w' },
  { path: '/traces', label: 'Traces', keys: 't' },
  { path: '/environment', label: 'Environment', keys: 'e' },
  { path: '/settings', label: 'Settings', keys: 's' },
  { path: '/previews', label: 'Previews', keys: 'v' },
  { path: '/history', label: 'History', keys: 'h' },
] as const

type FrameProps = {
  workspace: string
  id: string
  /** A page without a tab highlights the tab that leads to it. */
  tab: TabPath
  /** Follows the name of the deployment in the path at the top. */
  page?: string
  children: (deployment: Deployment, revisions: Revision[]) => ComponentChildren
}

/** One that serves, or that is the latest, was built as graphs. */
const servesGraphs = (
  { active_revision_id, latest_revision_id }: Pick<Deployment, 'active_revision_id' | 'latest_revision_id'>,
  revisions: Pick<Revision, 'id' | 'build_plan'>[],
): boolean =>
  revisions.some(
    ({ id, build_plan }) => (id === active_revision_id || id === latest_revision_id) && build_plan?.kind === 'graphs',
  )

export function DeploymentFrame({ workspace, id, tab, page, children }: FrameProps) {
  const ref = { params: { deployment_id: id } }
  const { data: deployment, error, refetch } = useRead(workspace, 'GET /v2/deployments/{deployment_id}', ref)
  const list = { ...ref, query: { limit: SHOWN_REVISIONS } }
  const revisions = useRead(workspace, 'GET /v2/deployments/{deployment_id}/revisions', list)
  const to = `/deployments/${id}`
  const label = page ?? TABS.find(({ path }) => path === tab && path !== '')?.label
  useCrumbs(
    { label: 'Deployments', to: '/deployments' },
    { label: deployment?.name ?? '…', ...(label && { to }) },
    ...(label ? [{ label }] : []),
  )

  if (isMissing(error))
    return (
      <Empty
        title="Deployment not found"
        action={<ButtonLink href={toAddress('/deployments')}>Open the deployments</ButtonLink>}
      >
        The deployment was deleted, or it is in another workspace.
      </Empty>
    )
  const failed = error ?? revisions.error
  if (failed && !(deployment && revisions.data))
    return <Problem error={failed} onRetry={() => void Promise.all([refetch(), revisions.refetch()])} />
  if (!deployment || !revisions.data) return <Skeleton lines={9} />
  const all = revisions.data.resources
  const tabs = TABS.filter(({ path }) => path !== '/graphs' || path === tab || servesGraphs(deployment, all))
  return (
    <>
      <Header workspace={workspace} deployment={deployment} revisions={all} />
      <Tabs label="Deployment" thing="this deployment" tabs={tabs} to={to} tab={tab} />
      {children(deployment, all)}
      {hasDraft(deployment) && <DraftBar workspace={workspace} deployment={deployment} />}
    </>
  )
}

type HeaderProps = { workspace: string; deployment: Deployment; revisions: Revision[] }

function Header({ workspace, deployment, revisions }: HeaderProps) {
  const [latest] = revisions
  const source = describeSource(deployment)
  const { url, local_url, name, preview } = deployment
  const { start, question } = useAction()
  const action = deployAgain(deployment)
  useCommands([
    ...(url
      ? [
          {
            id: 'visit',
            label: `Open ${hostOf(url)}`,
            kind: 'page',
            keys: 'o',
            run: () => open(url, '_blank', 'noreferrer'),
          },
        ]
      : []),
    { id: 'deploy-again', label: action.label, kind: 'action', run: () => start(action) },
  ])
  return (
    <header class={styles.head}>
      <div class={styles.heading}>
        <h1>{name}</h1>
        <StateLabel state={stateOfDeployment(deployment, latest)} large />
      </div>
      <div class={styles.actions}>
        <ChangeButtons workspace={workspace} deployment={deployment} revisions={revisions} />
        <ActionButton action={action} icon="again" />
        {url && (
          <ButtonLink href={url} look="primary" icon="out" hint="O" target="_blank" rel="noreferrer">
            Visit
          </ButtonLink>
        )}
      </div>
      <ul class={styles.meta}>
        <li>
          {/* One item: the gap between items would come before the comma. */}
          <span>
            {url ? (
              <a href={url} target="_blank" rel="noreferrer">
                {hostOf(url)}
              </a>
            ) : (
              'No URL yet'
            )}
            {local_url && (
              <>
                {', '}
                <a href={local_url} target="_blank" rel="noreferrer">
                  {hostOf(local_url)}
                </a>
              </>
            )}
          </span>
        </li>
        <li>
          <Icon name={source.kind} label={source.kindWord} />
          <span>
            {source.name} {source.version && <code>{source.version}</code>}
          </span>
        </li>
        {preview && (
          <li>
            Preview of pull request {preview.number}, {preview.branch}
          </li>
        )}
      </ul>
      {question}
    </header>
  )
}
