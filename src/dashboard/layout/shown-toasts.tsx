// The toasts that are shown now, inside of the region that announces them.
import { Button } from '../parts/button.tsx'
import { hide, shownIds, toasts } from '../parts/toast.ts'
import styles from '../parts/toasts.module.css'
import { ToastContent } from '../parts/toasts.tsx'

export default function ShownToasts() {
  return (
    <>
      {toasts.value
        .filter(({ id }) => shownIds.value.includes(id))
        .map(one => (
          <div key={one.id} class={styles.toast}>
            <ToastContent {...one} />
            <Button small look="bare" icon="cross" aria-label="Hide" onClick={() => hide(one.id)} />
          </div>
        ))}
    </>
  )
}
