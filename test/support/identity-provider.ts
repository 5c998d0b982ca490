// A real OpenID Connect server on this machine.
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Provider } from 'oidc-provider'

export const CLIENT_SECRET = 'hush-client-secret'
/** The claims of a person. */
export type Person = Record<string, unknown> & { sub: string }

/** Signs in any name that is typed, with the claims of the person. */
export const createIdentityProvider = (origin: string, callback: string, readPerson: () => Person): RequestListener =>
  new Provider(origin, {
    clients: [{ client_id: 'slipway', client_secret: CLIENT_SECRET, redirect_uris: [callback] }],
    claims: { openid: ['sub', 'groups'], email: ['email', 'email_verified'], profile: ['name'] },
    cookies: { keys: ['a key'] },
    features: { devInteractions: { enabled: true } },
    findAccount: (_: unknown, id: string) => ({ accountId: id, claims: () => ({ ...readPerson(), sub: id }) }),
  }).callback()

export const oidcSettings = (issuer: string) => ({
  OIDC_ISSUER: issuer,
  OIDC_CLIENT_ID: 'slipway',
  OIDC_CLIENT_SECRET: CLIENT_SECRET,
})

/** The handler gets the origin, which the provider's documents name. */
export async function listenLocally(createHandler: (origin: string) => RequestListener) {
  let answer: RequestListener = () => {}
  const server: Server = createServer((request, response) => answer(request, response))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  answer = createHandler(origin)
  const close = () => {
    server.close()
    server.closeAllConnections()
  }
  return { origin, close }
}
