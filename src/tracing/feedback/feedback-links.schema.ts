// Schemas of links that take feedback without a key. The reference calls them tokens.
import * as z from 'zod'
import { arrayOf, boundedText, CREDENTIAL, optionalFilter, Uuid } from '../../protocol/wire.ts'
import { JsonObject, offsetPage, storableText, Time } from '../runs/list-parameters.schema.ts'
import { TraceTime } from '../runs/time.schema.ts'
import { FeedbackConfig, FeedbackKey, Score } from './feedback.schema.ts'

export const MAX_LINK_DAYS = 365
const MAX_LINKS = 100

const Span = z.object({
  days: z.int().min(0).max(MAX_LINK_DAYS).default(0),
  hours: z
    .int()
    .min(0)
    .max(24 * MAX_LINK_DAYS)
    .default(0),
  minutes: z
    .int()
    .min(0)
    .max(24 * 60 * MAX_LINK_DAYS)
    .default(0),
})

const NewFeedbackLink = z.object({
  run_id: Uuid,
  feedback_key: FeedbackKey,
  feedback_config: FeedbackConfig.nullish(),
  expires_in: Span.nullish().meta({ description: 'By default three hours. At most a year.' }),
  expires_at: TraceTime.nullish().meta({ description: 'Replaces `expires_in`.' }),
})
/** One, or a list of them. The output is always a list. */
export const NewFeedbackLinks = z
  .union([
    NewFeedbackLink.transform(link => ({ links: [link], isList: false })),
    arrayOf(NewFeedbackLink, MAX_LINKS, 1).transform(links => ({ links, isList: true })),
  ])
  .meta({
    id: 'NewFeedbackLinks',
    description: `A link for one run and one key, or a list of at most ${MAX_LINKS}.`,
    example: { run_id: '0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a10', feedback_key: 'helpful', expires_in: { days: 7 } },
  })
export type NewFeedbackLinks = z.output<typeof NewFeedbackLinks>

export const FeedbackLink = z
  .object({
    id: Uuid.meta(CREDENTIAL),
    url: z.string().meta({
      ...CREDENTIAL,
      description: 'Takes feedback from whoever has it. Keep it from others.',
      format: 'uri',
    }),
    expires_at: Time,
    feedback_key: z.string(),
  })
  .meta({ id: 'FeedbackLink', description: 'A link that takes feedback about one run, under one key.' })
export type FeedbackLink = z.output<typeof FeedbackLink>
export const FeedbackLinkList = z.array(FeedbackLink).meta({ id: 'FeedbackLinkList' })
export const FeedbackLinkOrList = z.union([FeedbackLink, FeedbackLinkList]).meta({ id: 'FeedbackLinkOrList' })
export const FeedbackLinkQuery = z
  .object({ ...offsetPage(), run_id: Uuid })
  .meta({ example: { run_id: '0193e6a2-9c1b-7d52-8a51-5d2f3c7b9a10' } })
export const FeedbackLinkRef = z.object({ token: Uuid })

const MAX_TEXT = 65_536
const ScoreText = boundedText(32)
  .regex(/^(true|false|-?\d{1,9}(\.\d{1,15})?)$/i, { error: 'must be a number, true or false' })
  .transform(text => (/^[tf]/i.test(text) ? /^t/i.test(text) : Number(text)))

/** A query or a form, where all values are texts. */
export const LinkFeedbackQuery = z.object({
  score: optionalFilter(ScoreText),
  value: optionalFilter(boundedText(MAX_TEXT)),
  comment: optionalFilter(storableText(MAX_TEXT)),
  correction: optionalFilter(boundedText(MAX_TEXT)),
})
export const LinkFeedback = z
  .object({
    score: Score.nullish(),
    value: z.union([z.number(), z.boolean(), boundedText(MAX_TEXT)]).nullish(),
    comment: storableText(MAX_TEXT).nullish(),
    correction: z.union([JsonObject, boundedText(MAX_TEXT)]).nullish(),
    metadata: JsonObject.nullish(),
  })
  .meta({ id: 'LinkFeedback', example: { score: 1, comment: 'That helped.' } })
export type LinkFeedback = z.output<typeof LinkFeedback>
export const LinkAnswer = z.object({}).meta({ id: 'LinkAnswer', description: 'The feedback is stored.' })
