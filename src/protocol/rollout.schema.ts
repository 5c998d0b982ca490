// Schemas of rollouts: the steps by which each later revision of a deployment gets the traffic, and what stops it.
import * as z from 'zod'
import { GATE_DEFAULTS, STEP_DEFAULTS } from './defaults.ts'
import { arrayOf, boundedText, Instant, Uuid } from './wire.ts'

const MAX_ROLLOUT_STEPS = 10
const MAX_SCORES = 5
const MAX_FAILING_REQUESTS = 20
const MAX_GATES = 4 + MAX_SCORES
const MAX_MINUTES = 7 * 24 * 60

// ---- the policy

const RolloutStep = z
  .object({
    share: z.int().min(1).max(99).meta({ description: 'Percent of the requests.' }),
    minutes: z
      .number()
      .min(0)
      .max(MAX_MINUTES)
      .default(STEP_DEFAULTS.minutes)
      .meta({ description: 'The step lasts at least so long. Fractions are allowed.' }),
    requests: z
      .int()
      .min(0)
      .max(10_000_000)
      .default(STEP_DEFAULTS.requests)
      .meta({ description: 'The least number of requests that the revision has answered in this step.' }),
  })
  .meta({ description: 'A share of the traffic, and what it takes to go on from it.' })
type RolloutStep = z.output<typeof RolloutStep>

const alpha = z
  .number()
  .min(0.000_001)
  .max(0.1)
  .default(GATE_DEFAULTS.errors.alpha)
  .meta({
    description:
      'The probability that a revision which is no worse fails in a step, however often it is looked at. Smaller: ' +
      'fewer false alarms, and more requests until a worse one is seen.',
  })

const ErrorsGate = z
  .object({
    margin: z.number().min(0.0001).max(1).default(GATE_DEFAULTS.errors.margin).meta({
      description: 'The smallest difference that matters, as a share of the requests: 0.01 is one more in a hundred.',
    }),
    alpha,
  })
  .meta({
    description: 'Fails if more requests end with a status of 500 or above than at the serving revision meanwhile.',
  })
const LatencyGate = z
  .object({
    margin: z
      .number()
      .min(0.01)
      .max(1)
      .default(GATE_DEFAULTS.latency.margin)
      .meta({
        description:
          'The smallest difference that matters, as a share of the requests: so many more may be slower than nearly ' +
          'all of the serving revision are.',
      }),
    alpha,
  })
  .meta({
    description: 'Fails if more requests are slow than at the serving revision meanwhile.',
  })
const RestartsGate = z
  .object({ most: z.int().min(0).max(1000).default(GATE_DEFAULTS.restarts.most) })
  .meta({ description: 'Fails if its copies restart more often than this in one step.' })
const NewWebhookGate = z
  .object({
    url: boundedText(2048)
      .regex(/^https?:\/\/[^\s\0]+$/, { error: 'must be an http or https URL', abort: true })
      .refine(url => URL.canParse(url), { error: 'must be an http or https URL' })
      .meta({ format: 'uri' }),
    secret: boundedText(255)
      .min(8)
      .nullish()
      .meta({
        description:
          'Signs the question as Standard Webhooks specify: `whsec_` and base64, or any text. The mask keeps the ' +
          'stored one.',
      }),
  })
  .meta({
    id: 'NewWebhookGate',
    description: 'Asked by POST at the end of each step. An answer 2xx goes on, 4xx fails, others are asked again.',
  })
const WebhookGate = z
  .object({ url: z.string(), secret: z.string().nullable().meta({ description: 'Masked. Null: it is not signed.' }) })
  .meta({ id: 'WebhookGate' })
const ScoreKey = boundedText(255).min(1)
const ScoresGate = z
  .object({
    key: ScoreKey.meta({ description: 'The key of the feedback, by people or by evaluators.' }),
    margin: z.number().min(0.0001).max(1_000_000).default(GATE_DEFAULTS.scores.margin).meta({
      description: 'The smallest difference of the means that matters.',
    }),
    least: z
      .int()
      .min(2)
      .max(100_000)
      .default(GATE_DEFAULTS.scores.least)
      .meta({ description: 'The least number of scores of each of the two revisions. The step waits for them.' }),
    alpha,
  })
  .meta({
    description: 'Fails if the traces of the revision have worse scores than those of the serving one meanwhile.',
  })
export type ScoresGate = z.output<typeof ScoresGate>

const judgedByAgent = {
  errors: ErrorsGate.nullable().default(null),
  latency: LatencyGate.nullable().default(null),
  restarts: RestartsGate.nullable().default(null),
}
const NewScores = arrayOf(ScoresGate, MAX_SCORES)
  .default([])
  .superRefine((gates, check) => {
    const keys = gates.map(({ key }) => key)
    for (const [i, key] of keys.entries())
      if (keys.indexOf(key) < i) check.addIssue({ code: 'custom', path: [i, 'key'], message: 'is there twice' })
  })
const NewGates = z
  .object({ ...judgedByAgent, webhook: NewWebhookGate.nullable().default(null), scores: NewScores })
  .meta({ id: 'NewRolloutGates', description: 'What a revision has to pass in each step. Null or absent: not asked.' })

const Steps = arrayOf(RolloutStep, MAX_ROLLOUT_STEPS, 1)

export const NewRollout = z
  .object({
    steps: Steps.superRefine((steps, check) => {
      for (const [i, { share }] of steps.entries())
        if (i > 0 && share <= steps[i - 1]!.share)
          check.addIssue({ code: 'custom', path: [i, 'share'], message: 'must be larger than that of the step before' })
    }).meta({ description: 'In ascending order. After the last one the revision gets all requests.' }),
    gates: NewGates.prefault({}),
  })
  .meta({
    id: 'NewRollout',
    description: 'The steps by which each later revision of a deployment gets the traffic.',
    example: {
      steps: [
        { share: 1, minutes: 10 },
        { share: 10, minutes: 10, requests: 500 },
        { share: 50, minutes: 10 },
      ],
      gates: { errors: { margin: 0.01 }, latency: {}, restarts: { most: 0 } },
    },
  })
export type NewRollout = z.output<typeof NewRollout>

export const Rollout = z
  .object({
    steps: z.array(RolloutStep),
    gates: z.object({
      ...judgedByAgent,
      webhook: WebhookGate.nullable(),
      scores: z.array(ScoresGate),
    }),
  })
  .meta({ id: 'Rollout', description: 'The steps of each later revision of a deployment.' })
export type Rollout = z.output<typeof Rollout>

const rolloutActions = ['pause', 'resume', 'promote', 'abort'] as const
export const RolloutAction = z.enum(rolloutActions).meta({
  description:
    '`pause`: it stays at its step, and still fails if a gate does. `resume`: it goes on. `promote`: it gets all ' +
    'requests now. `abort`: it gets none, and ends as INTERRUPTED.',
})
export type RolloutAction = z.output<typeof RolloutAction>

// ---- judged

const gateNames = ['errors', 'latency', 'restarts', 'health', 'webhook', 'scores'] as const
const gateVerdicts = ['undecided', 'passed', 'failed'] as const
const Side = z.object({
  count: z.int().min(0).meta({ description: 'The number of requests, or of scores.' }),
  value: z
    .number()
    .nullable()
    .meta({
      description:
        'Of `errors` and `latency` the share of the requests that failed or were slow, of `restarts` their number, ' +
        'of `scores` the mean.',
    }),
})
export const GateJudgement = z
  .object({
    gate: z.enum(gateNames),
    key: ScoreKey.nullish().meta({ description: 'Of `scores`.' }),
    verdict: z.enum(gateVerdicts),
    canary: Side.nullish(),
    serving: Side.nullish(),
    slower_than_ms: z.number().nullish().meta({ description: 'Of `latency`: what counts as slow.' }),
    p: z.number().nullish().meta({ description: 'The probability of such a difference, or a larger one, by chance.' }),
    message: boundedText(500).meta({ description: 'The numbers in a sentence.' }),
  })
  .meta({ id: 'GateJudgement', description: 'A gate, with the numbers of both revisions since the step began.' })
export type GateJudgement = z.output<typeof GateJudgement>

export const FailingRequest = z
  .object({
    at: Instant,
    method: boundedText(20),
    path: boundedText(500).meta({ description: 'Without its query.' }),
    status: z.int().min(100).max(999),
    ms: z.number().min(0),
    trace_id: boundedText(64).nullish(),
  })
  .meta({ id: 'FailingRequest', description: 'A request of the revision that failed, or was slow.' })
export type FailingRequest = z.output<typeof FailingRequest>

const step = z.int().min(0).max(MAX_ROLLOUT_STEPS).meta({ description: 'Counted from 0.' })
const gates = z.array(GateJudgement)

export const RolloutProgress = z
  .object({
    revision_id: Uuid,
    step,
    share: z.int(),
    since: z.string().meta({ format: 'date-time', description: 'When the step began.' }),
    paused: z.boolean(),
    is_passed: z.boolean().meta({
      description: 'Whether the gates of its agent are passed. It waits for others, or until it is resumed.',
    }),
    judged_since: z.string().nullable().meta({
      format: 'date-time',
      description: 'What counts began then: with the step, or with a later start of the agent. Null: nothing yet.',
    }),
    requests: z.int().nullable().meta({ description: 'Its requests since then.' }),
    gates,
    steps: z.array(RolloutStep).meta({ description: 'The steps with which it began, also if others are set since.' }),
  })
  .meta({ id: 'RolloutProgress', description: 'The rollout of the revision in flight.' })
export type RolloutProgress = z.output<typeof RolloutProgress>

const PassedStep = z.object({
  step,
  share: z.int(),
  since: z.string().meta({ format: 'date-time' }),
  until: z.string().meta({ format: 'date-time' }),
  requests: z.int().nullable(),
  gates,
})
const RolloutFailure = z.object({
  step,
  share: z.int(),
  since: z.string().meta({ format: 'date-time', description: 'When the step began.' }),
  at: z.string().meta({ format: 'date-time' }),
  message: z.string(),
  requests: z.int().nullable().meta({ description: 'The requests that the revision got in the step.' }),
  gates,
  failing_requests: z.array(FailingRequest).meta({
    description: `At most ${MAX_FAILING_REQUESTS}: the latest that failed, or else the slowest.`,
  }),
})
export const RevisionRollout = z
  .object({
    steps: z.array(PassedStep).meta({ description: 'The steps that it has passed.' }),
    failure: RolloutFailure.nullable().meta({ description: 'Why it was sent back, with the numbers.' }),
  })
  .meta({ id: 'RevisionRollout', description: 'What is known of the rollout of a revision.' })
export type RevisionRollout = z.output<typeof RevisionRollout>

// ---- stored

/** In `deployments.rollout`. The secret of the webhook is sealed, in a column of its own. */
export type StoredRollout = {
  steps: RolloutStep[]
  gates: Omit<Rollout['gates'], 'webhook'> & { webhook: { url: string } | null }
}
/**
 * In `deployments.traffic`, with the policy as it was when the revision began. Only functions of SQL write it. `asked`:
 * what the control plane has judged last. `signed`: whether its webhook began with a secret.
 */
export type StoredProgress = {
  step: number
  since: string
  paused: boolean
  passed: boolean
  policy: StoredRollout
  signed: boolean
  asked?: GateJudgement[]
}

// ---- for agents

export const WorkRollout = z
  .object({ ...RolloutStep.pick({ minutes: true, requests: true }).shape, step, ...judgedByAgent })
  .meta({
    id: 'WorkRollout',
    description:
      'The step of a revision in flight, and the gates that its agent judges: each second, over the requests since ' +
      'the step began. A failed one sends all requests back at once.',
  })
export type WorkRollout = z.output<typeof WorkRollout>

export const ReportedRollout = z
  .object({
    step,
    outcome: z.enum(['holds', 'passed', 'failed']).meta({
      description: '`passed`: also its minutes and requests. `failed` comes with the state `failed`.',
    }),
    since: Instant.meta({ description: 'What counts began then.' }),
    requests: z.int().min(0),
    gates: arrayOf(GateJudgement, MAX_GATES),
    failing_requests: arrayOf(FailingRequest, MAX_FAILING_REQUESTS).nullish(),
  })
  .meta({ id: 'ReportedRollout', description: 'What the agent has judged of a step.' })
export type ReportedRollout = z.output<typeof ReportedRollout>
