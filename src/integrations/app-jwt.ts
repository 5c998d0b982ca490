// Signs the JWT by which a GitHub App authenticates as itself.
import { createPrivateKey, sign } from 'node:crypto'
import { fail } from '../kernel/errors.ts'

/** GitHub accepts ten minutes at most. Issued 30 seconds in the past, for clocks that run ahead of GitHub's. */
const LIFETIME_S = 600
const CLOCK_SKEW_S = 30

export function appJwt(id: string, privateKey: string): string {
  const issuedAt = Math.floor(Date.now() / 1000) - CLOCK_SKEW_S
  const claims = { iat: issuedAt, exp: issuedAt + LIFETIME_S, iss: id }
  const unsigned = `${encodePart({ alg: 'RS256', typ: 'JWT' })}.${encodePart(claims)}`
  return `${unsigned}.${signRs256(unsigned, privateKey)}`
}

const encodePart = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')

function signRs256(text: string, pem: string): string {
  // Read as DER: Node's PEM parser refuses a key whose line breaks became spaces in a settings file.
  const [, label, base64 = ''] = pem.split('-----')
  const type = label === 'BEGIN RSA PRIVATE KEY' ? 'pkcs1' : 'pkcs8'
  try {
    const key = createPrivateKey({ key: Buffer.from(base64, 'base64'), format: 'der', type })
    return sign('RSA-SHA256', Buffer.from(text), key).toString('base64url')
  } catch (cause) {
    throw fail('githost_refused', { about: 'the private key of the App cannot be read', cause })
  }
}
