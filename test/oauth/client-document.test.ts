import { describe, expect, it } from 'vitest'
import { clientDocumentUrl, redirectUri } from '../../src/oauth/client-document.ts'
import { send, startApp, unusedId } from '../support/app.ts'

const ORIGIN = 'https://slipway.example.com'
const app = () => startApp({ settings: { PUBLIC_URL: ORIGIN } })
const WELL_KNOWN = '/.well-known/oauth-client.json'

describe('the client metadata document', () => {
  it('of a provider has its URL as the client id, and names one redirect URI', async () => {
    const provider = unusedId()
    const address = clientDocumentUrl(ORIGIN, provider)!
    const { pathname, search, hash } = new URL(address)
    expect([address, search, hash]).toEqual([`${ORIGIN}${pathname}`, '', ''])
    const { status, headers, body } = await send('GET', pathname, { app: app() })
    expect([status, headers.get('Content-Type')]).toEqual([200, 'application/json'])
    expect(body).toEqual({
      ...{
        client_id: address,
        client_name: 'Slipway',
        client_uri: ORIGIN,
        redirect_uris: [redirectUri(ORIGIN, provider)],
      },
      ...{ grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] },
      ...{ token_endpoint_auth_method: 'none', application_type: 'web' },
    })
    expect(body.redirect_uris).toEqual([`${ORIGIN}/v2/auth/callback/${provider}`])
  })

  it('of the installation names its own URL', async () => {
    const { status, body } = await send('GET', WELL_KNOWN, { app: app() })
    expect([status, body.client_id]).toEqual([200, `${ORIGIN}${WELL_KNOWN}`])
    expect(body.redirect_uris).toHaveLength(1)
  })

  it.each(['', `/${unusedId()}`])('%s is absent if the base URL is not https', async rest => {
    for (const over of [startApp(), startApp({ settings: { PUBLIC_URL: 'http://slipway.example.com' } })]) {
      const { status, body } = await send('GET', WELL_KNOWN + rest, { app: over })
      expect([status, body.code]).toEqual([404, 'route_not_found'])
    }
    expect(clientDocumentUrl('http://slipway.example.com', unusedId())).toBe(null)
  })

  it('exists for UUIDs only', async () => {
    for (const client of ['x', 'x.json', '%00', `${unusedId()}x`])
      expect((await send('GET', `${WELL_KNOWN}/${client}`, { app: app() })).status).toBe(422)
  })
})
