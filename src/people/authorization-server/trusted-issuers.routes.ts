// Routes of trusted issuers.
import type { Code } from '../../kernel/http/codes.ts'
import { slice } from '../../kernel/http/routes.ts'
import * as s from './trusted-issuers.schema.ts'
import * as trusted from './trusted-issuers.ts'

const REFUSALS: Code[] = [
  'blocked_url',
  'role_not_found',
  'role_exceeds_actor',
  'key_outlives_creator',
  'temporary_key',
  'trusted_issuer_exists',
]

export const trustedIssuerRoutes = slice(
  'Trusted issuers',
  'Issuers whose tokens are exchanged for keys of a workspace, so that a CI needs no stored key.',
)
  .get('/v2/trusted-issuers', {
    id: 'listTrustedIssuers',
    summary: 'List the trusted issuers of this workspace',
    description: 'Newest first, also those that have ended. With `name`, the one with exactly that name.',
    query: s.TrustedIssuerQuery,
    reply: s.TrustedIssuerList,
    verb: trusted.listTrustedIssuers,
  })
  .post('/v2/trusted-issuers', {
    id: 'createTrustedIssuer',
    summary: 'Trust an issuer of tokens',
    description: [
      'A token of the issuer with this audience, subject and claims can be exchanged once, at `POST /oauth/token`, for',
      'a key with the role. If several trusted issuers accept a token, the one with the most characters outside of',
      '`*` decides.',
    ].join(' '),
    body: s.NewTrustedIssuer,
    status: 201,
    reply: s.TrustedIssuer,
    errors: REFUSALS,
    location: trusted => `/v2/trusted-issuers/${trusted.id}`,
    verb: trusted.createTrustedIssuer,
  })
  .get('/v2/trusted-issuers/{trusted_issuer_id}', {
    id: 'readTrustedIssuer',
    summary: 'Get a trusted issuer',
    description: 'It says which tokens are exchanged, for which keys, and when that was last done.',
    params: s.TrustedIssuerRef,
    reply: s.TrustedIssuer,
    errors: ['trusted_issuer_not_found'],
    versioned: true,
    verb: trusted.readTrustedIssuer,
  })
  .patch('/v2/trusted-issuers/{trusted_issuer_id}', {
    id: 'changeTrustedIssuer',
    summary: 'Change a trusted issuer',
    description: 'It acts on later exchanges. Keys that exist keep their role until they expire.',
    params: s.TrustedIssuerRef,
    body: s.TrustedIssuerPatch,
    reply: s.TrustedIssuer,
    errors: ['trusted_issuer_not_found', ...REFUSALS],
    versioned: true,
    verb: trusted.changeTrustedIssuer,
  })
  .delete('/v2/trusted-issuers/{trusted_issuer_id}', {
    id: 'deleteTrustedIssuer',
    summary: 'Delete a trusted issuer, and revoke the keys that its tokens were exchanged for',
    description: 'Further tokens are refused, and keys that were given end at once.',
    params: s.TrustedIssuerRef,
    errors: ['trusted_issuer_not_found'],
    versioned: true,
    verb: trusted.deleteTrustedIssuer,
  })
