// Requests to a link that shows runs, whose visitors have no key.
import type { Code } from '../../kernel/http/codes.ts'
import { requestOrigin } from '../../kernel/http/origin.ts'
import type { OpenOperation, Services } from '../../kernel/http/routes.ts'
import type { Visit } from './shares.ts'

type RequestContext = Parameters<OpenOperation['open']>[0]

export const SHARE_ERRORS: Code[] = [
  'run_share_not_found',
  'address_rate_limited',
  'link_rate_limited',
  'query_too_slow',
  'answers_busy',
  'storage_unavailable',
  'database_unavailable',
]

export function answerShare(
  c: RequestContext,
  services: Services,
  share_token: string,
  read: (visit: Visit) => Promise<unknown>,
): Promise<Response> {
  const { config } = services
  const visit = { services, share_token, requestId: c.get('requestId'), origin: requestOrigin(config, c.req.url) }
  const link = { route: 'shared-run', token: share_token, refusal: 'run_share_not_found' } as const
  return c.var.limits.answerLink(c, services, link, () => read(visit))
}
