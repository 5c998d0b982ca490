import { describe, expect, it } from 'vitest'
import { clientDocumentUrl, redirectUri } from '../../../src/connect/oauth/client-document.ts'
import { send, startApp, unusedId } from '../../support/app.ts'

const ORIGIN = 'https://slipway.example.com'
const startHttpsApp = () => startApp({ settings: { PUBLIC_URL: ORIGIN } })
const WELL_KNOWN = '/.well-known/oauth-client.json'

describe('the client metadata document', () => {
  it('for a provider has its own URL as the client id, and names one redirect URI', async () => {
    const provider = unusedId()
    const address = clientDocumentUrl(ORIGIN, provider)!
    const { pathname, search, hash } = new URL(address)
    expect([address, search, hash]).toEqual([`${ORIGIN}${pathname}`, '', ''])
    const { status, headers, body } = await send('GET', pathname, { app: startHttpsApp() })
    expect([status, headers.get('Content-Type')]).toEqual([200, 'application/json'])
    expect(body).toEqual({
      client_id: address,
      client_name: 'Slipway',
      client_uri: ORIGIN,
      redirect_uris: [redirectUri(ORIGIN, provider)],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
      application_type: 'web',
    })
    expect(body.redirect_uris).toEqual([`${ORIGIN}/v2/auth/callback/${provider}`])
  })

  it('for the installation has its own URL as the client id', async () => {
    const { status, body } = await send('GET', WELL_KNOWN, { app: startHttpsApp() })
    expect([status, body.client_id]).toEqual([200, `${ORIGIN}${WELL_KNOWN}`])
    expect(body.redirect_uris).toHaveLength(1)
  })

  it.each([
    ['of the installation', WELL_KNOWN],
    ['of a provider', `${WELL_KNOWN}/${unusedId()}`],
  ])('%s does not exist if PUBLIC_URL is not https', async (_, path) => {
    for (const app of [startApp(), startApp({ settings: { PUBLIC_URL: 'http://slipway.example.com' } })]) {
      const { status, body } = await send('GET', path, { app })
      expect([status, body.code]).toEqual([404, 'route_not_found'])
    }
    expect(clientDocumentUrl('http://slipway.example.com', unusedId())).toBe(null)
  })

  it('is refused if the id of its provider is not a UUID', async () => {
    for (const client of ['x', 'x.json', '%00', `${unusedId()}x`])
      expect((await send('GET', `${WELL_KNOWN}/${client}`, { app: startHttpsApp() })).status).toBe(422)
  })
})
