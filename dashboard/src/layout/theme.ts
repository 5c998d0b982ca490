// Light, dark, or as the system. `src/theme.ts` applies it before the page is painted.
import { signal } from '@preact/signals'

const KEY = 'slipway-theme'
export const THEMES = ['system', 'light', 'dark'] as const
export type Theme = (typeof THEMES)[number]

const stored = localStorage.getItem(KEY)
export const theme = signal<Theme>(stored === 'light' || stored === 'dark' ? stored : 'system')

export function setTheme(next: Theme): void {
  theme.value = next
  if (next === 'system') {
    localStorage.removeItem(KEY)
    delete document.documentElement.dataset.theme
  } else {
    localStorage.setItem(KEY, next)
    document.documentElement.dataset.theme = next
  }
}
