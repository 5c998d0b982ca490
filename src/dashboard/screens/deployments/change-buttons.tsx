// Buttons and keys for changes that need a plan: of the configuration, and to earlier revisions. The dialogs load when
// they are opened.
import { useEffect, useState } from 'preact/hooks'
import { navigate } from 'wouter-preact/use-browser-location'
import { explainMissingHere } from '../../api/permissions.ts'
import { useCommands } from '../../commands/commands.ts'
import { type Deployment, isInFlight, type Revision } from '../../format/state.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { toast } from '../../parts/toast.ts'
import { toAddress } from '../../router/links.tsx'
import { redeploy } from './change-requests.ts'
import type { PlanDialogProps } from './plan-dialog.tsx'
import type { RollbackDialogProps } from './rollback-dialog.tsx'

const PlanDialog = lazily<PlanDialogProps>(() => import('./plan-dialog.tsx'))
const RollbackDialog = lazily<RollbackDialogProps>(() => import('./rollback-dialog.tsx'))

type Props = { workspace: string; deployment: Deployment }

/** The newest deployed revision before the serving one, or before the latest if none serves. */
function findEarlier(deployment: Deployment, revisions: Revision[]): Revision | undefined {
  const serving = revisions.find(({ id }) => id === deployment.active_revision_id) ?? revisions[0]
  return revisions.find(({ number, status }) => status === 'DEPLOYED' && number < (serving?.number ?? 0))
}

export function ChangeButtons({ workspace, deployment, revisions }: Props & { revisions: Revision[] }) {
  const [target, setTarget] = useState<Revision>()
  const missing = explainMissingHere('deployments:update')
  const earlier = findEarlier(deployment, revisions)
  const rollBack = () => (missing ? toast('bad', 'Roll back is not possible', missing) : setTarget(earlier))
  const edit = () => navigate(toAddress(`/deployments/${deployment.id}/settings`))
  // The shortcut opens it at once.
  useEffect(() => {
    if (earlier) RollbackDialog.preload().catch(() => {})
  }, [earlier === undefined])
  useCommands([
    { id: 'plan-change', label: 'Plan a change', kind: 'action', keys: 'p', run: edit },
    ...(earlier
      ? [
          {
            id: 'roll-back',
            label: `Roll back to r${earlier.number}`,
            kind: 'action',
            keys: 'r',
            run: rollBack,
          },
        ]
      : []),
  ])
  return (
    <>
      {earlier && (
        <Button hint="R" unavailable={missing} onClick={rollBack}>
          Roll back
        </Button>
      )}
      {deployment.source === 'internal_source' && <Button onClick={edit}>Upload a changed folder</Button>}
      {target && (
        <RollbackDialog
          workspace={workspace}
          deployment={deployment}
          revision={target}
          onClose={() => setTarget(undefined)}
        />
      )}
    </>
  )
}

type RevisionProps = Props & { revision: Revision; small?: boolean }

export function RevisionButtons({ workspace, deployment, revision, small = false }: RevisionProps) {
  const [dialog, setDialog] = useState<'rollback' | 'redeploy'>()
  const missing = explainMissingHere('deployments:update')
  const { id, number, status } = revision
  const isServing = id === deployment.active_revision_id
  const other = isServing ? number - 1 : undefined
  const sides = other === undefined ? `from=${number}` : `from=${other}&to=${number}`
  const close = () => setDialog(undefined)
  return (
    <>
      {number > (isServing ? 1 : 0) && (
        <ButtonLink small={small} href={toAddress(`/deployments/${deployment.id}/compare?${sides}`)}>
          Compare
        </ButtonLink>
      )}
      {!isServing && status === 'DEPLOYED' && (
        <Button small={small} unavailable={missing} onClick={() => setDialog('rollback')}>
          Roll back
        </Button>
      )}
      {!isInFlight(revision) && !small && (
        <Button icon="again" unavailable={missing} onClick={() => setDialog('redeploy')}>
          Deploy r{number} again
        </Button>
      )}
      {dialog === 'rollback' && (
        <RollbackDialog workspace={workspace} deployment={deployment} revision={revision} onClose={close} />
      )}
      {dialog === 'redeploy' && (
        <PlanDialog
          workspace={workspace}
          deployment={deployment}
          change={redeploy(deployment, revision)}
          onClose={close}
        />
      )}
    </>
  )
}
