// Preferences of this browser: the theme, which `theme.ts` applies before the page is painted, and the time zone.
import { signal } from '@preact/signals'
import { setTimeZone } from '../format/time.ts'

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

const ZONE_KEY = 'slipway-zone'
/** Times are shown in UTC instead of the zone of the viewer. */
export const isUtc = signal(localStorage.getItem(ZONE_KEY) === 'UTC')
if (isUtc.value) setTimeZone('UTC')

export function setUtc(on: boolean): void {
  isUtc.value = on
  setTimeZone(on ? 'UTC' : undefined)
  if (on) localStorage.setItem(ZONE_KEY, 'UTC')
  else localStorage.removeItem(ZONE_KEY)
}
