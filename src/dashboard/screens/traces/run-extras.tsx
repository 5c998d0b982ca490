// The error of a run, and the files that were sent with it.
import type { Run } from '../../api/runs.ts'
import { Card } from '../../parts/card.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import { Glyph, Icon } from '../../parts/icon.tsx'
import { Body } from '../../parts/sections.tsx'
import { toObjectPath } from './payload.tsx'
import styles from './trace.module.css'

const SHORT = 400

/** A stack is folded: its first line says what happened. */
export function ErrorText({ error }: { error: string }) {
  const [, first = '', rest = ''] = /^\s*([^\n]*)\n?([\s\S]*)$/.exec(error) ?? []
  return (
    <section class={styles.error} aria-label="Error">
      <h2>
        <Glyph shape="octagon" tone="bad" />
        Error
        <CopyButton text={() => error} label="Copy the error" />
      </h2>
      <p>{first.slice(0, SHORT)}</p>
      {(rest.trim() || first.length > SHORT) && (
        <details>
          <summary>{first.length > SHORT ? 'Show all' : 'Stack trace'}</summary>
          <pre>{first.length > SHORT ? error : rest}</pre>
        </details>
      )}
    </section>
  )
}

export const Attachments = ({ urls }: { urls: NonNullable<Run['s3_urls']> }) => (
  <Card title="Attachments">
    <Body>
      <ul class={styles.attachments}>
        {Object.entries(urls).map(([name, stored]) => {
          const shown = name.replace(/^attachment\./, '')
          return (
            <li key={name}>
              <a href={toObjectPath(stored)} download={shown}>
                <Icon name="get" />
                {shown}
                <span>{stored.mime_type}</span>
              </a>
            </li>
          )
        })}
      </ul>
    </Body>
  </Card>
)
