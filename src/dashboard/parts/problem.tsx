// The error of a request: title, detail, every fault, and the request id of the server's log.
import { ApiError, ConnectionError } from '../api/client.ts'
import { Button } from './button.tsx'
import { CopyButton } from './copy.tsx'
import { Glyph } from './icon.tsx'
import styles from './problem.module.css'
import { Prose } from './prose.tsx'

type ProblemProps = { error: Error; onRetry?: (() => void) | undefined }
export function Problem({ error, onRetry }: ProblemProps) {
  const { title, errors, requestId } =
    error instanceof ApiError
      ? error
      : {
          title: error instanceof ConnectionError ? 'No response' : 'The request failed',
          errors: [],
          requestId: undefined,
        }
  return (
    <section class={styles.problem} role="alert">
      <Glyph shape="octagon" tone="bad" />
      <div class={styles.text}>
        <h2>{title}</h2>
        <p>
          <Prose text={error.message} />
        </p>
        {errors.length > 0 && (
          <ul>
            {errors.map(({ loc, msg }) => (
              <li key={loc.join('.') + msg}>
                <code>{loc.slice(1).join('.') || loc.join('.')}</code> {msg}
              </li>
            ))}
          </ul>
        )}
        {requestId && (
          <p class={styles.id}>
            Request <code>{requestId}</code>
            <CopyButton text={() => requestId} label="Copy the id of the request" />
          </p>
        )}
      </div>
      {onRetry && (
        <Button small icon="again" onClick={onRetry}>
          Try again
        </Button>
      )}
    </section>
  )
}
