// What was done in this tab, also what was shown and is gone.
import { formatClock } from '../format/time.ts'
import { Dialog } from '../parts/dialog.tsx'
import { ToastContent, toasts } from '../parts/toasts.tsx'
import styles from './done-list.module.css'

export default function DoneList({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Done in this tab" onClose={onClose}>
      {toasts.value.length === 0 ? (
        <p class={styles.none}>Nothing has been done in this tab yet.</p>
      ) : (
        <ol class={styles.list}>
          {toasts.value.map(one => (
            <li key={one.id}>
              <ToastContent {...one} />
              <time>{formatClock(one.at)}</time>
            </li>
          ))}
        </ol>
      )}
    </Dialog>
  )
}
