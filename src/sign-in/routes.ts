// Routes of the caller and its sessions.
import { MemberRef } from '../access/schema.ts'
import { describeRequest } from '../kernel/caller.ts'
import { fail } from '../kernel/errors.ts'
import { readBody, validateInput } from '../kernel/input.ts'
import { requestOrigin } from '../kernel/origin.ts'
import { slice } from '../kernel/routes.ts'
import { formatSessionCookie, isCrossSite } from '../kernel/session-cookie.ts'
import { Page } from '../protocol/wire.ts'
import { createLink, useLink } from './links.ts'
import * as s from './schema.ts'
import * as sessions from './sessions.ts'

const linkInput = { body: s.LinkToken }

export const signInRoutes = slice('Sign-in', 'Who the caller is, and the sessions of people in browsers.')
  .get('/v2/me', {
    id: 'readMe',
    summary: 'Get the caller, its organization and workspaces, and what it may do there',
    reply: s.Me,
    verb: sessions.readMe,
  })
  .get('/v2/me/sessions', {
    id: 'listMySessions',
    summary: 'List the sessions of the calling member or key',
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
    errors: ['cross_site_request'],
    verb: sessions.openSession,
  })
  .delete('/v2/me/sessions/current', {
    id: 'signOut',
    summary: 'End the session of this request',
    errors: ['session_not_found'],
    verb: sessions.signOut,
  })
  .delete('/v2/me/sessions/{own_session_id}', {
    id: 'endSession',
    summary: 'End one of the caller’s sessions',
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
      'body_too_large',
      'address_rate_limited',
      'database_unavailable',
    ],
    async open(c, services) {
      if (isCrossSite(c)) throw fail('cross_site_request')
      const { token } = validateInput(c.req, linkInput, await readBody(c.req), [], 'refuse') as { token: string }
      const address = services.config.clientAddress(c)
      const visit = { requestId: c.get('requestId'), request: describeRequest(c, { id: 'useSignInLink' }, address) }
      const proof = { route: 'sign-in', refusal: 'sign_in_link_invalid' } as const
      const opened = await c.var.limits.prove(c, proof, () => useLink(services, visit, token))
      c.header('Set-Cookie', formatSessionCookie(requestOrigin(services.config, c.req.url), opened.token))
      return c.json(opened.session, 201, { 'Cache-Control': 'no-store' })
    },
  })
