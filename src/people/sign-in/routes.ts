// Routes of the caller and its sessions.

import { type Code, detailOf, statusOf, titleOf } from '../../kernel/http/codes.ts'
import { Failure, fail, toFailure } from '../../kernel/http/errors.ts'
import { validateInput } from '../../kernel/http/input.ts'
import { logFailureCause } from '../../kernel/http/middleware.ts'
import { readOpenBody } from '../../kernel/http/open-body.ts'
import { requestOrigin } from '../../kernel/http/origin.ts'
import { type Services, slice } from '../../kernel/http/routes.ts'
import {
  flowCookieName,
  formatFlowCookie,
  formatSessionCookie,
  isCrossSite,
  readCookie,
} from '../../kernel/http/session-cookie.ts'
import { pageHeaders, renderPage } from '../../kernel/pages/html-page.ts'
import { Page } from '../../protocol/wire.ts'
import { MemberRef } from '../access/schema.ts'
import { createLink, useLink } from './links.ts'
import { beginSignIn, CALLBACK_PATH, completeSignIn, FLOW_SECONDS } from './oidc.ts'
import * as s from './schema.ts'
import * as sessions from './sessions.ts'
import { type Visitor, visitOf } from './visit.ts'

const PROVIDER_ERRORS: Code[] = [
  'route_not_found',
  'sign_in_refused',
  'blocked_url',
  'upstream_error',
  'upstream_timeout',
  'address_rate_limited',
  'database_unavailable',
]

const BACK = { href: '/sign-in', text: 'Back to the sign-in page' }
const linkInput = { body: s.LinkToken }
/** Reading a large body costs more than looking up a token. */
const LINK_REFUSALS: Code[] = ['sign_in_link_invalid', 'invalid_request', 'body_too_large']

/** A journal cannot have the refusal if no member or organization is known. */
const logRefusal = (c: Visitor, { platform }: Services, error: unknown): void =>
  platform.log({
    level: 'warn',
    request_id: c.get('requestId'),
    event: 'session.refused',
    code: toFailure(error).code,
    client_address: platform.clientAddress(c) ?? null,
  })

const redirect = (c: Visitor, location: string): Response =>
  c.body(null, 302, { Location: location, 'Cache-Control': 'no-store' })

/** A browser comes here by itself, so a failure is shown as a page. */
async function answerWithPage(
  c: Visitor,
  services: Services,
  answer: (origin: string) => Promise<Response>,
): Promise<Response> {
  const { config, platform } = services
  try {
    return await answer(requestOrigin(config, c.req.url))
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    logRefusal(c, services, error)
    logFailureCause(error, c.get('requestId'), platform)
    c.get('requestInfo').code = error.code
    const page = renderPage(titleOf(error.code), [detailOf(error.code)], BACK)
    return c.body(page, statusOf(error.code) as 200, await pageHeaders())
  }
}

export const signInRoutes = slice('Sign-in', 'Who the caller is, and the sessions of people in browsers.')
  .get('/v2/me', {
    id: 'readMe',
    summary: 'Get the caller, its organization and workspaces, and what it may do there',
    description:
      'Needs no permission and no `X-Tenant-Id`. Call it to find the workspaces of a key, or to see whether it still ' +
      'works.',
    reply: s.Me,
    verb: sessions.readMe,
  })
  .get('/v2/me/sessions', {
    id: 'listMySessions',
    summary: 'List the sessions of the calling member or key',
    description: 'Newest first. Needs no permission. `is_current` marks the session of the request.',
    query: Page,
    reply: s.SignInSessionList,
    verb: sessions.listSessions,
  })
  .post('/v2/me/sessions', {
    id: 'openSession',
    summary: 'Exchange an API key for a session',
    description:
      'Sets a cookie that browsers send instead of the key. The session has the rights of the key, and ends with it.',
    status: 201,
    reply: s.SignInSession,
    errors: ['cross_site_request', 'temporary_key'],
    verb: sessions.openSession,
  })
  .delete('/v2/me/sessions/current', {
    id: 'signOut',
    summary: 'End the session of this request',
    description: 'The cookie no longer works. A key that was exchanged for the session stays.',
    errors: ['session_not_found'],
    verb: sessions.signOut,
  })
  .delete('/v2/me/sessions/{own_session_id}', {
    id: 'endSession',
    summary: 'End one of the caller’s sessions',
    description: 'Needs no permission. Use it to sign out another browser.',
    params: s.SessionRef,
    errors: ['session_not_found'],
    verb: sessions.endOwnSession,
  })
  .post('/orgs/current/members/{member_id}/sign-in-links', {
    id: 'createSignInLink',
    summary: 'Create a link that signs a member in once',
    description: 'The caller needs every permission that the member has. The link works for 15 minutes.',
    params: MemberRef,
    status: 201,
    reply: s.SignInLink,
    errors: ['member_not_found'],
    verb: createLink,
  })
  .get('/sign-in/oidc', {
    id: 'beginSignIn',
    summary: 'Redirect to the identity provider',
    description: 'Exists if `OIDC_ISSUER` is set.',
    pageMediaType: 'text/html',
    status: 302,
    errors: PROVIDER_ERRORS,
    open: (c, services) =>
      answerWithPage(c, services, async origin => {
        // Each of them asks the provider.
        c.var.limits.countRequest(c, 'identity provider')
        const { url, sealed } = await beginSignIn(services, origin)
        c.header('Set-Cookie', formatFlowCookie(origin, sealed, FLOW_SECONDS))
        return redirect(c, url)
      }),
  })
  .get(CALLBACK_PATH, {
    id: 'finishSignIn',
    summary: 'The redirect URI at the identity provider: opens a session',
    description:
      'For browsers that the identity provider sends back, not for programs. It needs the cookie of the browser that ' +
      'began, sets the cookie of the session and redirects to `/sign-in`. A failure is a page.',
    query: s.SignInAnswer,
    pageMediaType: 'text/html',
    status: 302,
    errors: ['sign_in_expired', 'identity_unknown', 'email_unverified', 'journal_full', ...PROVIDER_ERRORS],
    open: (c, services, operation) =>
      answerWithPage(c, services, async origin => {
        const sealed = readCookie(c, flowCookieName(origin))
        const visit = visitOf(c, services, operation)
        const proof = { route: 'sign-in', refusal: 'sign_in_expired' } as const
        // A code works once. The flow cannot be repeated without the cookie.
        c.header('Set-Cookie', formatFlowCookie(origin, null, 0))
        const url = new URL(c.req.url)
        const token = await c.var.limits.prove(c, proof, () => completeSignIn(services, visit, origin, url, sealed))
        c.header('Set-Cookie', formatSessionCookie(origin, token), { append: true })
        return redirect(c, `${origin}/sign-in`)
      }),
  })
  .post('/sign-in/link', {
    id: 'useSignInLink',
    summary: 'Exchange the token of a sign-in link for a session',
    description: 'The token replaces an API key, and works once. Sets a cookie, as `POST /v2/me/sessions` does.',
    body: s.LinkToken,
    status: 201,
    reply: s.SignInSession,
    errors: [
      'sign_in_link_invalid',
      'cross_site_request',
      'not_json',
      'body_cut',
      'body_too_slow',
      'bodies_busy',
      'body_too_large',
      'journal_full',
      'address_rate_limited',
      'database_unavailable',
    ],
    async open(c, services, operation) {
      if (isCrossSite(c)) throw fail('cross_site_request')
      const visit = visitOf(c, services, operation)
      const proof = { route: 'sign-in', refusal: LINK_REFUSALS }
      const opened = await c.var.limits
        .prove(c, proof, async () => {
          const text = await readOpenBody(c, services)
          const { token } = validateInput(c.req, linkInput, text, [], 'refuse') as { token: string }
          return useLink(services, visit, token)
        })
        .catch(error => {
          logRefusal(c, services, error)
          throw error
        })
      c.header('Set-Cookie', formatSessionCookie(requestOrigin(services.config, c.req.url), opened.token))
      return c.json(opened.session, 201, { 'Cache-Control': 'no-store' })
    },
  })
