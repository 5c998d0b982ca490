// The time that a page of tracing is about, as it stands in the address.
import { useMemo } from 'preact/hooks'
import { useFilter } from '../../router/links.tsx'

const HOUR_S = 3600
export const SPANS = [
  { name: '1h', label: '1 hour', short: '1 h', seconds: HOUR_S, stride: { minutes: 1 } },
  { name: '24h', label: '24 hours', short: '24 h', seconds: 24 * HOUR_S, stride: { minutes: 30 } },
  { name: '', label: '7 days', short: '7 d', seconds: 7 * 24 * HOUR_S, stride: { hours: 3 } },
  { name: '30d', label: '30 days', short: '30 d', seconds: 30 * 24 * HOUR_S, stride: { hours: 12 } },
  { name: '400d', label: '400 days', short: '400 d', seconds: 400 * 24 * HOUR_S, stride: { days: 8 } },
] as const
export type Span = (typeof SPANS)[number]
const DEFAULT = SPANS[2]

const MINUTE_MS = 60_000

/** Its start stays the same until another span is chosen, so that what is read can be kept. */
export function useSpan(): { span: Span; from: string; setSpan: (name: string) => void } {
  const [name, setSpan] = useFilter('span')
  const span = SPANS.find(one => one.name === name) ?? DEFAULT
  const from = useMemo(() => startOf(span), [span])
  return { span, from, setSpan }
}

const startOf = ({ seconds }: Span, now = Date.now()): string =>
  new Date(Math.floor(now / MINUTE_MS) * MINUTE_MS - seconds * 1000).toISOString()
