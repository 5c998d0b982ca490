// Instructions to verify the signature of a message.
import { CopyButton } from '../../parts/copy.tsx'
import { Note } from '../../parts/sections.tsx'
import styles from './webhook.module.css'
import { verifySnippet, type Webhook } from './webhook-state.ts'

export const Verify = ({ webhook: { id, public_key } }: { webhook: Webhook }) => {
  const keys = `${location.origin}/.well-known/webhook-keys/${id}`
  return (
    <>
      <Note>
        With the package <code>standardwebhooks</code>, in Node:
      </Note>
      <div class={styles.snippet}>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls */}
        <section class={styles.scroll} tabIndex={0} aria-label="Snippet">
          <pre>{verifySnippet}</pre>
        </section>
        <CopyButton text={() => verifySnippet} label="Copy the snippet" />
      </div>
      <Note>
        Each message also has an Ed25519 signature, <code>v1a</code>, which needs no secret. Its public key is{' '}
        <code class={styles.key}>{public_key}</code>
        <CopyButton text={() => public_key} label="Copy the public key" />, and at{' '}
        <a href={keys} target="_blank" rel="noreferrer">
          {keys}
        </a>
        . Refuse a message whose time is more than five minutes from now, and ignore an id that you have seen.
      </Note>
    </>
  )
}
