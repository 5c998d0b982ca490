// A request to a receiver and what it answered.
import { CopyButton } from '../../parts/copy.tsx'
import { Note } from '../../parts/sections.tsx'
import styles from './webhook.module.css'
import type { DeliveryDetails } from './webhook-state.ts'

const pretty = (text: string): string => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

type ExchangeProps = Pick<DeliveryDetails, 'request' | 'answer'>
export const Exchange = ({ request: { url, headers, body }, answer }: ExchangeProps) => (
  <>
    <section class={styles.part}>
      <h3>
        Answer {answer && <code>{answer.status}</code>} <span>the first 2 KiB</span>
      </h3>
      {!answer && <Note>No response.</Note>}
      {answer && (answer.body ? <Text label="Body of the answer" text={pretty(answer.body)} /> : <Note>Empty.</Note>)}
    </section>
    <section class={styles.part}>
      <h3>Request</h3>
      {headers ? (
        <Text
          label="Headers of the request"
          text={[`POST ${url}`, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)].join('\n')}
        />
      ) : (
        <Note>Not sent yet.</Note>
      )}
      {body === null ? (
        <Note>The event is no longer kept, so its body is not available.</Note>
      ) : (
        <Text label="Body of the request" text={pretty(body)} />
      )}
    </section>
  </>
)

const Text = ({ label, text }: { label: string; text: string }) => (
  <div class={styles.snippet}>
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls */}
    <section class={styles.scroll} tabIndex={0} aria-label={label}>
      <pre>{text}</pre>
    </section>
    <CopyButton text={() => text} label={`Copy: ${label}`} />
  </div>
)
