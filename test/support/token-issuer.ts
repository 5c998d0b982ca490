// An issuer of tokens on this machine, as a CI runs one: discovery, keys and tokens of jobs, over HTTP.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import { listenLocally } from './identity-provider.ts'

export type Handler = (request: IncomingMessage, response: ServerResponse) => void
type SigningKey = { kid: string; alg: string; key: CryptoKey; jwk: Record<string, unknown> }

export async function newSigningKey(alg = 'ES256'): Promise<SigningKey> {
  const kid = crypto.randomUUID()
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true })
  return { kid, alg, key: privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } }
}

export const sendJson = (response: ServerResponse, body: unknown): void =>
  void response.setHeader('Content-Type', 'application/json').end(JSON.stringify(body))

const DISCOVERY = '/.well-known/openid-configuration'

export type TokenIssuer = Awaited<ReturnType<typeof startTokenIssuer>>

export async function startTokenIssuer() {
  const requests: string[] = []
  /** Handlers by path that replace answers of the issuer. */
  const instead: Record<string, Handler> = {}
  let keys = [await newSigningKey()]
  const { origin, close } = await listenLocally(origin => (request, response) => {
    requests.push(request.url!)
    const path = request.url!.replace(/\?.*/, '')
    if (instead[path]) return instead[path](request, response)
    if (path === DISCOVERY) return sendJson(response, { issuer: origin, jwks_uri: `${origin}/keys` })
    if (path === '/keys') return sendJson(response, { keys: keys.map(({ jwk }) => jwk) })
    response.writeHead(404).end()
  })
  return {
    origin,
    close,
    requests,
    instead,
    discovery: DISCOVERY,
    key: () => keys[0]!,
    /** Later tokens are signed by the first one. */
    publish: (published: SigningKey[]) => {
      keys = published
    },
    /** Signs a token of a job. Null leaves a claim out. `now` is in milliseconds. */
    sign: (
      claims: Record<string, unknown> = {},
      { by = keys[0]!, header = {}, now = Date.now() }: { by?: SigningKey; header?: object; now?: number } = {},
    ): Promise<string> => {
      const at = Math.floor(now / 1000)
      const all = { iss: origin, iat: at, nbf: at - 60, exp: at + 300, jti: crypto.randomUUID(), ...claims }
      const given = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null))
      return new SignJWT(given as JWTPayload)
        .setProtectedHeader({ alg: by.alg, kid: by.kid, typ: 'JWT', ...header })
        .sign(by.key)
    },
  }
}
