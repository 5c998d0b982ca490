// Previews as a matrix: branches by deployments.
import { hostOf, shortCommit } from '../../format/source.ts'
import { formatExact } from '../../format/time.ts'
import { Button } from '../../parts/button.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago, now } from '../../parts/time.tsx'
import { Link } from '../../router/links.tsx'
import { useApproval } from './preview-list.tsx'
import styles from './previews.module.css'
import { cellOf, describeExpiry, needsApproval, type Preview, stateOfPreview, toMatrix } from './words.ts'

export function PreviewMatrix({ workspace, previews }: { workspace: string; previews: Preview[] }) {
  const { branches, parents, at } = toMatrix(previews)
  const { ask, dialog } = useApproval(workspace, previews)
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls needs the focus for its keys
    <section class={styles.scroll} aria-label="Branches by deployments" tabIndex={0}>
      <table class={styles.matrix}>
        <caption class={styles.unseen}>Previews, branches by deployments</caption>
        <thead>
          <tr>
            <th scope="col">Branch</th>
            {parents.map(({ id, name }) => (
              <th key={id} scope="col">
                <Link to={`/deployments/${id}/previews`}>{name}</Link>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {branches.map(branch => (
            <tr key={branch}>
              <th scope="row">
                <code>{branch}</code>
              </th>
              {parents.map(({ id }) => {
                const preview = at.get(cellOf(branch, id))
                return (
                  <td key={id}>
                    {preview ? (
                      <Cell preview={preview} onApprove={() => ask(preview)} />
                    ) : (
                      <span class={styles.absent}>–</span>
                    )}
                  </td>
                )
              })}
            </tr>
          ))}
        </tbody>
      </table>
      {dialog}
    </section>
  )
}

function Cell({ preview, onApprove }: { preview: Preview; onApprove: () => void }) {
  const { number, deployment_id, head_sha, url, created_at, expires_at, last_request_at, state } = preview
  const label = number === null ? preview.kind : `#${number}`
  return (
    <div class={styles.cell}>
      <StateLabel state={stateOfPreview(preview)} />
      <p class={styles.detail}>
        {deployment_id && state !== 'ended' ? (
          <Link to={`/deployments/${deployment_id}`}>{label}</Link>
        ) : (
          <span>{label}</span>
        )}{' '}
        {head_sha && <code title={head_sha}>{shortCommit(head_sha)}</code>}, <Ago time={created_at} suffix=" old" />
      </p>
      {url && (
        <p class={styles.detail}>
          <a href={url} target="_blank" rel="noreferrer" title={url}>
            {hostOf(url)}
          </a>
        </p>
      )}
      {state !== 'ended' && (
        <p class={styles.detail}>
          Expires <time title={formatExact(expires_at)}>{describeExpiry(preview, now.value)}</time>
          {last_request_at && (
            <>
              , used <Ago time={last_request_at} suffix=" ago" />
            </>
          )}
        </p>
      )}
      {needsApproval(preview) && (
        <Button small onClick={onApprove}>
          Approve {shortCommit(head_sha ?? '')} …
        </Button>
      )}
    </div>
  )
}
