// The list of all toasts of this tab, also of those that are no longer shown.
import { formatClock } from '../format/time.ts'
import { Dialog } from '../parts/dialog.tsx'
import { toasts } from '../parts/toast.ts'
import { ToastContent } from '../parts/toasts.tsx'
import styles from './done-list.module.css'

export default function DoneList({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Activity in this tab" onClose={onClose}>
      {toasts.value.length === 0 ? (
        <p class={styles.none}>No activity in this tab yet.</p>
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
