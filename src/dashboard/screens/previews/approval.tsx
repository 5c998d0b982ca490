// The approval of a fork's commit. It shows that commit, and approves no other: not one that arrives meanwhile.
import { useState } from 'preact/hooks'
import { perform } from '../../api/actions.ts'
import { isMissing, useRead } from '../../api/queries.ts'
import { shortCommit } from '../../format/source.ts'
import { CopyAs } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Glyph } from '../../parts/icon.tsx'
import { Problem } from '../../parts/problem.tsx'
import { toast } from '../../parts/toast.ts'
import { approve } from './actions.ts'
import styles from './previews.module.css'
import { nameOf, type Preview } from './words.ts'

type ApprovalProps = { workspace: string; preview: Preview; onClose: () => void }

export function ApprovalDialog({ workspace, preview: current, onClose }: ApprovalProps) {
  const [shown, setShown] = useState(current)
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<Error>()
  const isOld = current.head_sha !== shown.head_sha
  const action = approve(shown)
  const run = async () => {
    setBusy(true)
    setError(undefined)
    try {
      await perform(action.request)
      toast('ok', action.done)
      onClose()
    } catch (caught) {
      setError(caught as Error)
    }
    setBusy(false)
  }
  return (
    <Dialog
      title={`Approve a commit of a fork for ${nameOf(shown)}?`}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          {isOld ? (
            <Button
              look="primary"
              onClick={() => {
                setShown(current)
                setError(undefined)
              }}
            >
              Look at {shortCommit(current.head_sha ?? '')}
            </Button>
          ) : (
            <Button look="primary" busy={busy} onClick={() => void run()}>
              {action.label}
            </Button>
          )}
        </>
      }
    >
      {isOld && (
        <p class={styles.newer} role="alert">
          <Glyph shape="triangle" tone="warn" />
          <span>
            A newer commit has arrived: <code>{shortCommit(current.head_sha ?? '')}</code>. The commit below can no
            longer be approved.
          </span>
        </p>
      )}
      <CommitView preview={shown} />
      <Consequences workspace={workspace} deployment={shown.parent_deployment_id} />
      {!isOld && <CopyAs action={action} />}
      {error && <Problem error={error} />}
    </Dialog>
  )
}

function CommitView({ preview }: { preview: Preview }) {
  const { commit, commit_url, pull_request_url, branch, number } = preview
  const [title, ...rest] = (commit?.message ?? '').split('\n')
  const body = rest.join('\n').trim()
  return (
    <section class={styles.commit} aria-label="The commit">
      <p class={styles.message}>{title || 'No commit message.'}</p>
      {body && <pre class={styles.messageBody}>{body}</pre>}
      <dl>
        <dt>Commit</dt>
        <dd>
          <code>{preview.head_sha}</code>
        </dd>
        <dt>Author</dt>
        <dd>{commit?.author ?? 'not given'}</dd>
        <dt>Branch</dt>
        <dd>
          <code>{branch}</code> of a fork
        </dd>
      </dl>
      <p class={styles.links}>
        {commit_url && (
          <a href={commit_url} target="_blank" rel="noreferrer">
            Read the commit
          </a>
        )}
        {pull_request_url && (
          <a href={pull_request_url} target="_blank" rel="noreferrer">
            Open pull request {number}
          </a>
        )}
      </p>
    </section>
  )
}

function Consequences({ workspace, deployment }: { workspace: string; deployment: string }) {
  const { data, error } = useRead(workspace, 'GET /v2/deployments/{deployment_id}/preview-policy', {
    params: { deployment_id: deployment },
  })
  const names = data?.secrets.map(({ name }) => name) ?? []
  return (
    <ul class={styles.consequences}>
      <li>The commit is built and run, with commands from its author.</li>
      <li>
        {isMissing(error)
          ? 'The deployment no longer has a preview policy.'
          : names.length > 0
            ? `The preview can read the secrets of the preview policy: ${names.join(', ')}.`
            : 'The preview policy has no secrets.'}{' '}
        The preview cannot read the secrets of the deployment.
      </li>
      <li>Only this commit is approved. Later commits need their own approval.</li>
    </ul>
  )
}
