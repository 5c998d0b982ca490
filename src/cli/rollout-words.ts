// The words and options of `slipway rollout`, as a policy.
import { GATE_DEFAULTS } from '../protocol/defaults.ts'
import { usageError } from './failure.ts'
import type { Deployment } from './session.ts'
import { parseDuration } from './times.ts'

type Policy = NonNullable<Deployment['rollout']>
type Gates = Policy['gates']

export type GateFlags = {
  errors?: string
  latency?: string
  restarts?: string
  score?: string[]
  webhook?: string
}
export const GATE_FLAGS = ['errors', 'latency', 'restarts', 'score', 'webhook'] as const
export const EXAMPLE = 'slipway rollout shop 1=10m 10=10m:500 50=1h'

/** Such as `10=10m:500`: 10 percent, for 10 minutes and 500 requests at least. The API checks the values. */
export function parseStep(word: string) {
  const [, share, time, requests] = /^(\d{1,3})=(0|\d{1,6}[smhdw])(?::(\d{1,9}))?$/.exec(word) ?? []
  if (share === undefined || time === undefined)
    throw usageError(
      `\`${word}\` is not a step. Write SHARE=TIME or SHARE=TIME:REQUESTS, with a time like 90s, 10m or 1h.`,
      EXAMPLE,
    )
  const minutes = time === '0' ? 0 : parseDuration(time, share) / 60_000
  return { share: Number(share), minutes, requests: Number(requests ?? 0) }
}

/** A gate that no option names stays. The first policy has those that need no address and no key. */
export function parseGates(flags: GateFlags, kept: Gates | undefined, secret: string | undefined): Gates {
  const { errors, latency, restarts, score, webhook } = flags
  const gates: Gates = kept ?? {
    errors: GATE_DEFAULTS.errors,
    latency: GATE_DEFAULTS.latency,
    restarts: GATE_DEFAULTS.restarts,
    webhook: null,
    scores: [],
  }
  return {
    errors: errors === undefined ? gates.errors : toShare('errors', errors, gates.errors),
    latency: latency === undefined ? gates.latency : toShare('latency', latency, gates.latency),
    restarts: restarts === undefined ? gates.restarts : toRestarts(restarts),
    webhook: toWebhook(webhook, gates.webhook, secret),
    scores: score === undefined ? gates.scores : toScores(score, gates.scores),
  }
}

function toShare(option: 'errors' | 'latency', text: string, kept: Gates['errors']): Gates['errors'] {
  if (text === 'off') return null
  const percent = /^\d{1,3}(\.\d{1,4})?$/.test(text) ? Number(text) : Number.NaN
  if (percent > 0 && percent <= 100) return { ...GATE_DEFAULTS[option], ...kept, margin: percent / 100 }
  throw usageError(`--${option} ${text} is not a percentage like 0.5 or 2, or off.`, EXAMPLE)
}

function toRestarts(text: string): Gates['restarts'] {
  if (text === 'off') return null
  if (/^\d{1,4}$/.test(text)) return { most: Number(text) }
  throw usageError(`--restarts ${text} is not a number, or off.`, EXAMPLE)
}

function toWebhook(url: string | undefined, kept: Gates['webhook'], secret: string | undefined): Gates['webhook'] {
  if (url === 'off') return null
  const to = url ?? kept?.url
  if (to === undefined) {
    if (secret === undefined) return null
    throw usageError('--webhook-secret-file needs --webhook URL.', EXAMPLE)
  }
  return { url: to, secret: secret ?? (kept?.url === to ? kept.secret : null) }
}

function toScores(words: string[], kept: Gates['scores']): Gates['scores'] {
  if (words.includes('off')) {
    if (words.length === 1) return []
    throw usageError('--score off goes with no other score.', EXAMPLE)
  }
  return words.map(word => {
    const [, key = word, margin] = /^(.+)=(\d{1,7}(?:\.\d{1,6})?)$/.exec(word) ?? []
    if (margin === undefined && word.includes('='))
      throw usageError(
        `--score ${word} does not end with a margin. Write KEY or KEY=MARGIN, such as helpful=0.05.`,
        EXAMPLE,
      )
    const before = kept.find(one => one.key === key) ?? GATE_DEFAULTS.scores
    return { ...before, key, ...(margin !== undefined && { margin: Number(margin) }) }
  })
}
