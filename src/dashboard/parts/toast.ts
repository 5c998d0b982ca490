// The text of the toast.
import { signal } from '@preact/signals'

export type Toast = { id: number; tone: 'ok' | 'bad'; text: string; detail?: string | undefined; at: number }

export const toasts = signal<Toast[]>([])
export const shownIds = signal<number[]>([])
const SHOWN_MS = { ok: 5_000, bad: 15_000 }
const MAX_KEPT = 50
let lastId = 0

export function toast(tone: Toast['tone'], text: string, detail?: string): void {
  const id = ++lastId
  toasts.value = [{ id, tone, text, detail, at: Date.now() }, ...toasts.value].slice(0, MAX_KEPT)
  shownIds.value = [...shownIds.value, id]
  setTimeout(() => hide(id), SHOWN_MS[tone])
}

export const hide = (id: number) => {
  shownIds.value = shownIds.value.filter(other => other !== id)
}
