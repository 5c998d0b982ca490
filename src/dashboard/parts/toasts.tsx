// What has happened: announced, shown for a while, and kept in a list until the page is left.
import { signal } from '@preact/signals'
import { Button } from './button.tsx'
import { Glyph } from './icon.tsx'
import styles from './toasts.module.css'

type Toast = { id: number; tone: 'ok' | 'bad'; text: string; detail?: string | undefined; at: number }

export const toasts = signal<Toast[]>([])
const shownIds = signal<number[]>([])
const SHOWN_MS = { ok: 5_000, bad: 15_000 }
const MAX_KEPT = 50
let lastId = 0

export function toast(tone: Toast['tone'], text: string, detail?: string): void {
  const id = ++lastId
  toasts.value = [{ id, tone, text, detail, at: Date.now() }, ...toasts.value].slice(0, MAX_KEPT)
  shownIds.value = [...shownIds.value, id]
  setTimeout(() => hide(id), SHOWN_MS[tone])
}
const hide = (id: number) => {
  shownIds.value = shownIds.value.filter(other => other !== id)
}

export const ToastContent = ({ tone, text, detail }: Toast) => (
  <>
    <Glyph shape={tone === 'ok' ? 'check' : 'octagon'} tone={tone} />
    <div>
      <p>{text}</p>
      {detail && <p class={styles.detail}>{detail}</p>}
    </div>
  </>
)

export const Toasts = () => (
  <div class={styles.shown} role="status" aria-live="polite">
    {toasts.value
      .filter(({ id }) => shownIds.value.includes(id))
      .map(one => (
        <div key={one.id} class={styles.toast}>
          <ToastContent {...one} />
          <Button small look="bare" icon="cross" aria-label="Hide" onClick={() => hide(one.id)} />
        </div>
      ))}
  </div>
)
