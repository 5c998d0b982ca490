// The progress of packing or an upload, and the button that cancels it.
import { formatBytes } from '../../format/size.ts'
import { Button } from '../../parts/button.tsx'
import styles from './new.module.css'

type ProgressProps = { text: string; done: number; total: number | undefined; onCancel: () => void }
export const ProgressBar = ({ text, done, total, onCancel }: ProgressProps) => (
  <div class={styles.progress}>
    <p>{text}</p>
    <progress aria-label={text} {...(total !== undefined && { value: done, max: Math.max(total, 1) })} />
    <p class={styles.small}>{total !== undefined && `${formatBytes(done)} of ${formatBytes(total)}`}</p>
    <Button small onClick={onCancel}>
      Cancel
    </Button>
  </div>
)
