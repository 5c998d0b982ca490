// Routes of feedback, of its configurations, and of links that take it without a key.
import type { Code } from '../../kernel/http/codes.ts'
import { readFormInput, validateInput } from '../../kernel/http/input.ts'
import { readOpenBody } from '../../kernel/http/open-body.ts'
import { type OpenOperation, type Services, slice } from '../../kernel/http/routes.ts'
import * as s from './feedback.schema.ts'
import * as feedback from './feedback.ts'
import * as configs from './feedback-configs.ts'
import * as l from './feedback-links.schema.ts'
import * as links from './feedback-links.ts'

const CHECKED: Code[] = ['feedback_out_of_range', 'feedback_config_differs']
const LINK_ERRORS: Code[] = [...CHECKED, 'feedback_link_not_found', 'address_rate_limited', 'database_unavailable']
type Visitor = Parameters<OpenOperation['open']>[0]
const FORM = /^application\/x-www-form-urlencoded\s*(;|$)/i

/** A browser that loads a page ahead of time, or only asks for the headers, says nothing. */
const isFetchedAhead: (request: { method: string; header(name: string): string | undefined }) => boolean = request =>
  request.method === 'HEAD' || /prefetch|prerender/i.test(request.header('Sec-Purpose') ?? '')

const readLinkFeedback = async (c: Visitor, services: Services): Promise<l.LinkFeedback> => {
  const request = c.req
  if (request.method !== 'POST') return validateInput(request, { query: l.LinkFeedbackQuery }, '', [])
  if (FORM.test(request.header('Content-Type') ?? '')) return readFormInput(request, l.LinkFeedbackQuery)
  return validateInput(request, { body: l.LinkFeedback }, await readOpenBody(c, services), [])
}

const receiveLinkFeedback: OpenOperation['open'] = async (c, services) => {
  c.var.limits.countRequest(c, 'feedback link')
  const { token } = validateInput(c.req, { params: l.FeedbackLinkRef }, '', []) as { token: string }
  const input = await readLinkFeedback(c, services)
  if (!isFetchedAhead(c.req)) await links.sendLinkFeedback(services, token, input)
  return c.json({}, 200, { 'Cache-Control': 'no-store' })
}

export const feedbackRoutes = slice('Feedback', 'What people and programs say of runs and projects.')
  .post('/feedback', {
    id: 'createFeedback',
    toleratesUnknown: true,
    idempotent: true,
    summary: 'Give feedback about a run or a project',
    description:
      'The run may arrive later. Feedback of the same caller with the same `id`, run and key replaces the earlier one.',
    body: s.NewFeedbackBody,
    reply: s.Feedback,
    errors: ['project_not_found', 'feedback_exists', ...CHECKED],
    verb: feedback.createFeedback,
  })
  .get('/feedback', {
    id: 'listFeedback',
    toleratesUnknown: true,
    summary: 'List feedback, newest first',
    description:
      'Filters are combined, and each may be repeated for alternatives. A page that is shorter than `limit` is the ' +
      'last one.',
    query: s.FeedbackQuery,
    repeatable: ['run', 'session', 'key', 'source', 'user'],
    reply: s.FeedbackList,
    verb: feedback.listFeedback,
  })
  .get('/feedback/{feedback_id}', {
    id: 'readFeedback',
    toleratesUnknown: true,
    summary: 'Read feedback',
    description: 'With `include_user_names`, it has the name of the member who gave it.',
    params: s.FeedbackRef,
    query: s.WithUserNames,
    reply: s.Feedback,
    errors: ['feedback_not_found'],
    verb: feedback.readFeedback,
  })
  .patch('/feedback/{feedback_id}', {
    id: 'changeFeedback',
    toleratesUnknown: true,
    idempotent: true,
    summary: 'Change feedback',
    description: 'Members that are absent stay as they are. The run, the key and the author cannot be changed.',
    params: s.FeedbackRef,
    body: s.FeedbackPatch,
    reply: s.Feedback,
    errors: ['feedback_not_found', ...CHECKED],
    verb: feedback.changeFeedback,
  })
  .delete('/feedback/{feedback_id}', {
    id: 'deleteFeedback',
    toleratesUnknown: true,
    idempotent: true,
    summary: 'Delete feedback',
    description: 'It cannot be undone. The statistics of its run and project no longer count it.',
    params: s.FeedbackRef,
    errors: ['feedback_not_found'],
    verb: feedback.deleteFeedback,
  })
  .post('/feedback/tokens', {
    id: 'createFeedbackLinks',
    toleratesUnknown: true,
    idempotent: true,
    summary: 'Create a link that takes feedback about one run without a key',
    description: [
      'For pages and mails.',
      'The link takes `score`, `value`, `comment` and `correction` by GET, or by POST as JSON or as a form.',
      'It holds one piece of feedback, which its next use replaces, until it expires.',
    ].join(' '),
    body: l.NewFeedbackLinks,
    reply: l.FeedbackLinkOrList,
    errors: ['feedback_links_full', 'feedback_config_differs'],
    verb: links.createFeedbackLinks,
  })
  .get('/feedback/tokens', {
    id: 'listFeedbackLinks',
    toleratesUnknown: true,
    summary: 'List the feedback links of a run that have not expired',
    description: 'Newest first, with the URL and the end of each. A run can have 100.',
    query: l.FeedbackLinkQuery,
    reply: l.FeedbackLinkList,
    verb: links.listFeedbackLinks,
  })
  .get('/feedback/tokens/{token}', {
    id: 'sendLinkFeedback',
    summary: 'Give feedback by a link, with a query',
    description:
      'Takes no API key: the token in the path replaces it. A link in a mail may be loaded ahead of time by a ' +
      'browser: such a request stores nothing. The next use of the link replaces the feedback.',
    params: l.FeedbackLinkRef,
    query: l.LinkFeedbackQuery,
    reply: l.LinkAnswer,
    errors: LINK_ERRORS,
    open: receiveLinkFeedback,
  })
  .post('/feedback/tokens/{token}', {
    id: 'postLinkFeedback',
    idempotent: true,
    summary: 'Give feedback by a link, as JSON or as a form',
    description: 'Takes no API key: the token in the path replaces it. The next use of the link replaces the feedback.',
    params: l.FeedbackLinkRef,
    body: l.LinkFeedback,
    reply: l.LinkAnswer,
    errors: [...LINK_ERRORS, 'not_json', 'body_cut', 'body_too_slow', 'body_too_large', 'bodies_busy'],
    open: receiveLinkFeedback,
  })
  .get('/feedback-configs', {
    id: 'listFeedbackConfigs',
    toleratesUnknown: true,
    summary: 'List what the feedback of each key may say',
    description:
      'A configuration says of a key whether its feedback is a number within limits, one of several categories, or a ' +
      'text. Keys without one take any feedback.',
    query: s.FeedbackConfigQuery,
    repeatable: ['key'],
    reply: s.FeedbackConfigList,
    verb: configs.listFeedbackConfigs,
  })
  .post('/feedback-configs', {
    id: 'createFeedbackConfig',
    toleratesUnknown: true,
    idempotent: true,
    summary: 'Configure a feedback key',
    description: 'If the key has the same configuration already, nothing changes.',
    body: s.NewFeedbackConfig,
    reply: s.FeedbackConfigEntry,
    errors: ['feedback_config_differs', 'quota_full'],
    verb: configs.createFeedbackConfig,
  })
  .patch('/feedback-configs', {
    id: 'changeFeedbackConfig',
    toleratesUnknown: true,
    summary: 'Change the configuration of a feedback key',
    description: 'It holds for feedback that comes later. Feedback that was given before stays as it is.',
    body: s.FeedbackConfigPatch,
    reply: s.FeedbackConfigEntry,
    errors: ['feedback_config_not_found'],
    verb: configs.changeFeedbackConfig,
  })
  .delete('/feedback-configs', {
    id: 'deleteFeedbackConfig',
    toleratesUnknown: true,
    summary: 'Delete the configuration of a feedback key',
    description: 'The feedback stays.',
    query: s.FeedbackConfigRef,
    errors: ['feedback_config_not_found'],
    verb: configs.deleteFeedbackConfig,
  })
