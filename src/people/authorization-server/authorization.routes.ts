// Routes of the page on which a person decides about a client.
import { slice } from '../../kernel/http/routes.ts'
import * as s from './authorization.schema.ts'
import { approveClient, readAuthorizationRequest } from './authorization.ts'

export const authorizationRoutes = slice('Connected programs', 'Programs that people let act for them, by OAuth.')
  .get('/v2/me/authorization-request', {
    id: 'readAuthorizationRequest',
    summary: 'Get what a client asks for',
    description:
      'For members who are signed in. The query is that of `/oauth/authorize`. A client whose id is a URL is looked ' +
      'up there.',
    query: s.AuthorizationQuery,
    reply: s.AuthorizationRequest,
    callsExternalServers: true,
    errors: [
      'invalid_client',
      'invalid_redirect_uri',
      'invalid_scope',
      'invalid_target',
      'member_required',
      'blocked_url',
      'upstream_error',
      'upstream_timeout',
    ],
    verb: readAuthorizationRequest,
  })
  .post('/v2/me/authorizations', {
    id: 'approveClient',
    summary: 'Let a client act as the caller in one workspace, until it is disconnected',
    description: 'The client redeems the code for a key. It stays connected as long as it comes back within 90 days.',
    body: s.Approval,
    status: 201,
    reply: s.Approved,
    errors: ['authorization_request_not_found', 'member_required'],
    verb: approveClient,
  })
