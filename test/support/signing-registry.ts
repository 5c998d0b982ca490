// A registry that verifies its tokens, and its settings.
import { expect } from 'vitest'
import { type App, send } from './app.ts'
import { toPem } from './registry-settings.ts'

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const CERTIFICATE = Buffer.from('as the registry knows it').toString('base64')

export async function makeSigningRegistry(url = 'registry.example.com:5000/apps') {
  type Key = Parameters<typeof crypto.subtle.verify>[1]
  const pair = (await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])) as Record<
    'publicKey' | 'privateKey',
    Key
  >
  const key = Buffer.from((await crypto.subtle.exportKey('pkcs8', pair.privateKey)) as ArrayBuffer).toString('base64')
  const signingKey = (toPem('PRIVATE KEY', key) + toPem('CERTIFICATE', CERTIFICATE)).replaceAll('\n', '\\n')
  return {
    settings: { REGISTRY_URL: url, REGISTRY_SIGNING_KEY: signingKey },
    /** Requests a token, as a client of the registry does. */
    ask(app: App, password: string, scopes: string[], requestId = `registry-${crypto.randomUUID()}`) {
      const query = new URLSearchParams({ service: url.split('/')[0]! })
      for (const scope of scopes) query.append('scope', scope)
      const headers = { Authorization: `Basic ${btoa(`anyone:${password}`)}`, 'X-Request-Id': requestId }
      return send('GET', `/v2/registry/token?${query}`, { headers, app })
    },
    /** Verifies a token, as the registry does. */
    async claimsOf(token: string) {
      const [head = '', body = '', signature = ''] = token.split('.')
      const text = new TextEncoder().encode(`${head}.${body}`)
      expect(await crypto.subtle.verify(ALGORITHM, pair.publicKey, Buffer.from(signature, 'base64url'), text)).toBe(
        true,
      )
      const read = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString())
      expect(read(head)).toEqual({ typ: 'JWT', alg: 'ES256', x5c: [CERTIFICATE] })
      return read(body)
    },
  }
}
