// The moment in the address, and how a deployment was at one in words (pure but for the address).
import type { Item } from '../../../client/client.ts'
import { type State, stateOfDeployment, stateOfRevision } from '../../format/state.ts'

export type Summary = Item<'GET /v2/deployment-states'>['present']

export function stateAtMoment({ status, healthy, latest, served, hold }: Summary): State {
  if (latest?.status && latest.status !== 'DEPLOYED' && status !== 'UNKNOWN')
    return stateOfRevision({ status: latest.status })
  if (status === 'UNKNOWN') return { word: 'Listener silent', tone: 'warn', shape: 'diamond' }
  if (served && healthy === false) return { word: 'Unhealthy', tone: 'bad', shape: 'octagon' }
  const serving = served === null ? 'none' : served.id === latest?.id ? 'current' : 'previous'
  return stateOfDeployment({ status: status ?? 'READY', serving, hold })
}

export const isSameSummary = (a: Summary, b: Summary): boolean =>
  a.served?.id === b.served?.id && stateAtMoment(a).word === stateAtMoment(b).word

/** An invalid moment in the address is now. */
export function parseMoment(text: string): number | undefined {
  const time = Date.parse(text)
  return text && !Number.isNaN(time) ? time : undefined
}

export const toMoment = (time: number): string => new Date(time).toISOString().replace('.000Z', 'Z')

const MINUTE = 60_000
const HOUR = 60 * MINUTE
export const RANGES = [
  { name: 'hour', label: '1 h', ms: HOUR },
  { name: 'day', label: '24 h', ms: 24 * HOUR },
  { name: 'week', label: '7 d', ms: 7 * 24 * HOUR },
  { name: 'month', label: '30 d', ms: 30 * 24 * HOUR },
  { name: '', label: 'All', ms: undefined },
] as const

/** The range of the slider: up to now, and always around the chosen time. */
export function windowOf(range: string, { first, at, now }: { first: number; at: number; now: number }) {
  const length = RANGES.find(({ name }) => name === range)?.ms
  const start = Math.min(length === undefined ? first : Math.max(first, now - length), at)
  // A deployment that was just created still has a slider.
  return { start: Math.min(start, now - MINUTE), end: now }
}
