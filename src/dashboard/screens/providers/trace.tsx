// A discovery or a check, step by step.
import { Glyph } from '../../parts/icon.tsx'
import { Prose } from '../../parts/prose.tsx'
import { type Fetched, listSteps, type Provider } from './discovery-steps.ts'
import styles from './trace.module.css'

type TraceProps = {
  trace: Fetched[]
  hasFailed?: boolean
  /** The step that a discovery without registration leaves for later. */
  next?: string
}
export const Trace = ({ trace, hasFailed = false, next }: TraceProps) => (
  <ol class={styles.steps} aria-label="Steps of the discovery">
    {listSteps(trace, hasFailed).map(({ title, question, state, requests, conclusion }) => (
      <li key={title}>
        <Glyph {...state} />
        <div class={styles.step}>
          <h3>
            {title} <span>{question}</span>
          </h3>
          <ul>
            {requests.map(({ fetched, answer, conclusion }, index) => (
              <li key={index}>
                <code class={styles.url}>
                  <b>{fetched.method}</b> {fetched.url}
                </code>
                <span class={styles.answer}>
                  <code>{answer}</code> <span>{Math.round(fetched.ms)} ms</span>
                </span>
                <span class={styles.concluded}>{conclusion}</span>
              </li>
            ))}
          </ul>
          {conclusion && <p>{conclusion}</p>}
        </div>
      </li>
    ))}
    {next && (
      <li>
        <Glyph shape="queued" tone="busy" />
        <div class={styles.step}>
          <h3>
            Obtain a client <span>Which client does this installation use?</span>
          </h3>
          <p>{next}</p>
        </div>
      </li>
    )}
  </ol>
)

export const Warnings = ({ warnings }: { warnings: NonNullable<Provider['warnings']> }) => (
  <ul class={styles.warnings}>
    {warnings.map(({ code, detail }) => (
      <li key={code + detail}>
        <Glyph shape="triangle" tone="warn" />
        <p>
          <Prose text={detail} /> <code>{code}</code>
        </p>
      </li>
    ))}
  </ul>
)
