// A secret that the API returns once. It cannot be shown after the page is left.
import type { ComponentChildren } from 'preact'
import { CopyButton } from './copy.tsx'
import { Glyph } from './icon.tsx'
import styles from './shown-once.module.css'

type ShownOnceProps = { title: string; secret: string; children?: ComponentChildren }
export const ShownOnce = ({ title, secret, children }: ShownOnceProps) => (
  <section class={styles.box} role="status" aria-label={title}>
    <h3>
      <Glyph shape="triangle" tone="warn" />
      {title}
    </h3>
    <div class={styles.secret}>
      <code>{secret}</code>
      <CopyButton text={() => secret} look="default">
        Copy
      </CopyButton>
    </div>
    {children && <div class={styles.text}>{children}</div>}
  </section>
)
