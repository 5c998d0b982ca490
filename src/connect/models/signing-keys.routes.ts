// The public keys of the tokens that this installation signs.
import * as z from 'zod'
import { publicJwks } from '../../kernel/crypto/signing-keys.ts'
import { slice } from '../../kernel/http/routes.ts'

const CACHE_HEADERS = { 'Cache-Control': 'public, max-age=300' }

const SigningKeys = z
  .object({
    keys: z.array(
      z.object({
        kty: z.literal('OKP'),
        crv: z.literal('Ed25519'),
        use: z.literal('sig'),
        alg: z.literal('EdDSA'),
        kid: z.string().meta({ description: 'As `SIGNING_JWKS` has it, else the thumbprint of RFC 7638.' }),
        x: z.string(),
      }),
    ),
  })
  .meta({ id: 'SigningKeys' })

export const signingKeyRoutes = slice('Signing keys', 'The keys by which this installation signs tokens.').get(
  '/.well-known/jwks.json',
  {
    id: 'readSigningKeys',
    summary: 'The public keys of this installation, as a JSON Web Key Set',
    description: [
      'Authentication proxies in front of models verify by them who calls. Takes no API key.',
      'Several keys are published while one replaces another. Verifiers may keep the answer for five minutes.',
    ].join(' '),
    reply: SigningKeys,
    open: async (c, { config }) => c.json(await publicJwks(config), 200, CACHE_HEADERS),
  },
)
