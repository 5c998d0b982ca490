// The text of a toast, where it is shown and in the list of all.
import { Glyph } from './icon.tsx'
import type { Toast } from './toast.ts'
import styles from './toasts.module.css'

export const ToastContent = ({ tone, text, detail }: Toast) => (
  <>
    <Glyph shape={tone === 'ok' ? 'check' : 'octagon'} tone={tone} />
    <div>
      <p>{text}</p>
      {detail && <p class={styles.detail}>{detail}</p>}
    </div>
  </>
)
