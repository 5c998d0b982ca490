// What changes a deployment through a plan, as buttons and keys: a change of its configuration, and revisions that it
// can go back to. The dialogs load when they are opened.
import { useEffect, useState } from 'preact/hooks'
import { navigate } from 'wouter-preact/use-browser-location'
import { explainMissingHere } from '../../api/permissions.ts'
import { useCommands } from '../../commands/commands.ts'
import { type Deployment, isInFlight, type Revision } from '../../format/state.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { toast } from '../../parts/toasts.tsx'
import { toAddress } from '../../router/links.tsx'
import { redeploy } from './change-requests.ts'
import type { PlanDialogProps } from './plan-dialog.tsx'
import type { RollbackDialogProps } from './rollback-dialog.tsx'

const PlanDialog = lazily<PlanDialogProps>(() => import('./plan-dialog.tsx'))
const RollbackDialog = lazily<RollbackDialogProps>(() => import('./rollback-dialog.tsx'))

/** What the caller may not do looks disabled, and says why when it is pressed. */
function useMayChange() {
  const missing = explainMissingHere('deployments:update')
  return {
    refused: { unavailable: missing !== undefined, title: missing },
    ifAllowed: (run: () => void) => () => (missing ? toast('bad', 'Your role does not allow this', missing) : run()),
  }
}

type Props = { workspace: string; deployment: Deployment }

/** The newest one that was deployed before what serves, or before the latest where nothing serves. */
function findEarlier(deployment: Deployment, revisions: Revision[]): Revision | undefined {
  const serving = revisions.find(({ id }) => id === deployment.active_revision_id) ?? revisions[0]
  return revisions.find(({ number, status }) => status === 'DEPLOYED' && number < (serving?.number ?? 0))
}

export function ChangeButtons({ workspace, deployment, revisions }: Props & { revisions: Revision[] }) {
  const [target, setTarget] = useState<Revision>()
  const { refused, ifAllowed } = useMayChange()
  const earlier = findEarlier(deployment, revisions)
  const rollBack = ifAllowed(() => setTarget(earlier))
  const edit = () => navigate(toAddress(`/deployments/${deployment.id}/settings`))
  // Its key opens it at once.
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
        <Button hint="R" {...refused} onClick={rollBack}>
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

/** What can be done with one revision of the list. */
export function RevisionButtons({ workspace, deployment, revision, small = false }: RevisionProps) {
  const [dialog, setDialog] = useState<'rollback' | 'redeploy'>()
  const { refused, ifAllowed } = useMayChange()
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
        <Button small={small} {...refused} onClick={ifAllowed(() => setDialog('rollback'))}>
          Roll back
        </Button>
      )}
      {!isInFlight(revision) && !small && (
        <Button icon="again" {...refused} onClick={ifAllowed(() => setDialog('redeploy'))}>
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
