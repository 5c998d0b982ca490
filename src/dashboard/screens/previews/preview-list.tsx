// Rows of previews, with the approval of a fork's commit.
import { useState } from 'preact/hooks'
import { hostOf, shortCommit } from '../../format/source.ts'
import { formatExact } from '../../format/time.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { Badge, StateLabel } from '../../parts/state.tsx'
import { Ago, now } from '../../parts/time.tsx'
import { Link } from '../../router/links.tsx'
import { remove } from './actions.ts'
import { ApprovalDialog } from './approval.tsx'
import styles from './previews.module.css'
import { describeExpiry, nameOf, needsApproval, type Preview, stateOfPreview } from './words.ts'

/** The dialog follows the preview, so that it notices a newer commit. */
export function useApproval(workspace: string, previews: Preview[]) {
  const [asked, setAsked] = useState<string>()
  const preview = previews.find(({ id }) => id === asked)
  const dialog = preview && (
    <ApprovalDialog workspace={workspace} preview={preview} onClose={() => setAsked(undefined)} />
  )
  return { ask: ({ id }: Preview) => setAsked(id), dialog }
}

type ListProps = { workspace: string; previews: Preview[]; caption: string }
export function PreviewList({ workspace, previews, caption }: ListProps) {
  const { ask, dialog } = useApproval(workspace, previews)
  return (
    <>
      <table class={styles.table}>
        <caption class={styles.unseen}>{caption}</caption>
        <thead>
          <tr>
            <th scope="col">Preview</th>
            <th scope="col">State</th>
            <th scope="col">Commit</th>
            <th scope="col">Last request</th>
            <th scope="col">Expires</th>
            <th scope="col">
              <span class={styles.unseen}>Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {previews.map(preview => (
            <PreviewRow key={preview.id} preview={preview} onApprove={() => ask(preview)} />
          ))}
        </tbody>
      </table>
      {dialog}
    </>
  )
}

function PreviewRow({ preview, onApprove }: { preview: Preview; onApprove: () => void }) {
  const { deployment_id, url, branch, commit, commit_url, state, fork, last_request_at, expires_at } = preview
  const title = commit?.message?.split('\n', 1)[0]
  return (
    <tr>
      <th scope="row">
        <p class={styles.name}>
          {deployment_id && state !== 'ended' ? (
            <Link to={`/deployments/${deployment_id}`}>{nameOf(preview)}</Link>
          ) : (
            <span>{nameOf(preview)}</span>
          )}
          {fork && <Badge tone="idle">Fork</Badge>}
        </p>
        <p class={styles.detail} title={branch}>
          {branch}
        </p>
        {url && (
          <p class={styles.detail}>
            <a href={url} target="_blank" rel="noreferrer" title={url}>
              {hostOf(url)}
            </a>
          </p>
        )}
      </th>
      <td data-label="State">
        <StateLabel state={stateOfPreview(preview)} />
      </td>
      <td data-label="Commit" class={styles.commitCell}>
        {commit ? (
          <p>
            {commit_url ? (
              <a href={commit_url} target="_blank" rel="noreferrer" title={commit.sha}>
                <code>{shortCommit(commit.sha)}</code>
              </a>
            ) : (
              <code title={commit.sha}>{shortCommit(commit.sha)}</code>
            )}{' '}
            <span class={styles.detail}>{commit.author}</span>
          </p>
        ) : (
          <span class={styles.absent}>none</span>
        )}
        {preview.problem && <p class={styles.detail}>{preview.problem}</p>}
        {title && (
          <p class={styles.detail} title={commit?.message ?? undefined}>
            {title}
          </p>
        )}
      </td>
      <td data-label="Last request">
        {last_request_at ? <Ago time={last_request_at} suffix=" ago" /> : <span class={styles.absent}>unknown</span>}
      </td>
      <td data-label="Expires">
        <time dateTime={expires_at} title={formatExact(expires_at)}>
          {describeExpiry(preview, now.value)}
        </time>
      </td>
      <td class={styles.actions}>
        {needsApproval(preview) && (
          <Button small look="primary" onClick={onApprove}>
            Approve {shortCommit(preview.head_sha ?? '')} …
          </Button>
        )}
        {state !== 'ended' && <ActionButton small action={remove(preview)} />}
      </td>
    </tr>
  )
}
