// The rollback to a revision: its differences, the result, and the hold that follows.
import { useState } from 'preact/hooks'
import { useRead } from '../../api/queries.ts'
import { shortCommit } from '../../format/source.ts'
import type { Deployment, Revision } from '../../format/state.ts'
import { CopyButton } from '../../parts/copy.tsx'
import { CheckField } from '../../parts/form.tsx'
import { hasCommits, rollBackTo } from './change-requests.ts'
import PlanDialog from './plan-dialog.tsx'
import styles from './rollback.module.css'

export type RollbackDialogProps = {
  workspace: string
  deployment: Deployment
  revision: Pick<Revision, 'id' | 'number'>
  onClose: () => void
}

export default function RollbackDialog({ workspace, deployment, revision, onClose }: RollbackDialogProps) {
  const [untilNewer, setUntilNewer] = useState(false)
  const { id, name, latest_revision_id, active_revision_id } = deployment
  const { data: comparison } = useRead(
    workspace,
    'GET /v2/deployments/{deployment_id}/revisions/{revision_id}/compare/{other_revision_id}',
    {
      params: {
        deployment_id: id,
        revision_id: active_revision_id ?? latest_revision_id ?? revision.id,
        other_revision_id: revision.id,
      },
    },
  )
  const isPushed = hasCommits(deployment)
  const command = `slipway release ${name}`
  return (
    <PlanDialog
      workspace={workspace}
      deployment={deployment}
      change={rollBackTo(deployment, revision, untilNewer)}
      onClose={onClose}
    >
      <dl class={styles.facts}>
        <dt>After the rollback</dt>
        <dd>
          A new revision with the {isPushed ? 'commit' : 'files or image'}, the configuration and the secrets of r
          {revision.number}
          {comparison?.commits && (
            <>
              {': '}
              <code>{shortCommit(comparison.commits.from)}</code> → <code>{shortCommit(comparison.commits.to)}</code>
              {comparison.commits.compare_url && (
                <>
                  {' '}
                  <a href={comparison.commits.compare_url} target="_blank" rel="noreferrer">
                    Show the commits
                  </a>
                </>
              )}
            </>
          )}
          .
        </dd>
        <dt>Hold</dt>
        <dd>
          {isPushed ? 'Pushes do not deploy' : 'The hold lasts'} until you release the hold: with the button on the page
          of {name}, or <code>{command}</code>
          <CopyButton text={() => command} label="Copy the command that releases the hold" />
        </dd>
      </dl>
      {isPushed && (
        <CheckField
          label="A newer commit ends the hold too"
          hint="The rolled-back commit is never deployed automatically."
          checked={untilNewer}
          onChange={setUntilNewer}
        />
      )}
    </PlanDialog>
  )
}
