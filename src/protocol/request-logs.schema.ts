// Schemas of the request log of a deployment: which requests through the router become lines.
import * as z from 'zod'
import { DEFAULT_REQUEST_LOGS } from './defaults.ts'

const mode = z.enum(['off', 'errors', 'sampled', 'all']).meta({
  description: [
    '`errors`: requests that failed (status 500 or more, or a client that left) and slow ones, up to 20 a second.',
    '`sampled`: these, and of the others as many as `rate` says.',
    '`all`: up to 200 a second. A line counts what was left out.',
  ].join(' '),
})
const rate = z.int().min(1).max(50).meta({
  description: 'Of `sampled`: lines a second, beside those of errors and slow ones. A burst may have 30 times as many.',
})
const slow_ms = z.int().min(1).max(600_000).meta({
  description: 'A request is slow if its answer begins later than this.',
})
const client_address = z.enum(['none', 'truncated', 'full']).meta({
  description: '`truncated`: the network of the client alone, /24 of IPv4 and /48 of IPv6.',
})

export const RequestLogs = z.object({ mode, rate, slow_ms, client_address }).meta({
  id: 'RequestLogs',
  description: 'Which requests through the router become lines of the log.',
})
export type RequestLogs = z.output<typeof RequestLogs>

export const NewRequestLogs = z
  .object({
    mode,
    rate: rate.default(DEFAULT_REQUEST_LOGS.rate),
    slow_ms: slow_ms.default(DEFAULT_REQUEST_LOGS.slow_ms),
    client_address: client_address.default(DEFAULT_REQUEST_LOGS.client_address),
  })
  .meta({
    id: 'NewRequestLogs',
    description: 'Which requests through the router become lines of the log.',
    example: { mode: 'sampled', rate: 5 },
  })
export type NewRequestLogs = z.output<typeof NewRequestLogs>
