// Preferences for logs. The browser keeps them: a link does not carry them.
import { type Signal, signal } from '@preact/signals'

const stored = (name: string, initial: boolean): Signal<boolean> => {
  const value = signal((localStorage.getItem(name) ?? String(initial)) === 'true')
  value.subscribe(next => localStorage.setItem(name, String(next)))
  return value
}

export const wraps = stored('slipway-logs-wrap', true)
export const isUtc = stored('slipway-utc', false)
