// Signs the JWT by which a GitHub App authenticates as itself.
import { fail } from '../../kernel/http/errors.ts'

/** GitHub accepts ten minutes at most. Issued 30 seconds in the past, for clocks that run ahead of GitHub's. */
const LIFETIME_S = 600
const CLOCK_SKEW_S = 30

const RS256 = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }

export async function appJwt(id: string, privateKey: string): Promise<string> {
  const issuedAt = Math.floor(Date.now() / 1000) - CLOCK_SKEW_S
  const claims = { iat: issuedAt, exp: issuedAt + LIFETIME_S, iss: id }
  const unsigned = `${encodePart({ alg: 'RS256', typ: 'JWT' })}.${encodePart(claims)}`
  const key = await crypto.subtle.importKey('pkcs8', readPkcs8(privateKey), RS256, false, ['sign']).catch(cause => {
    throw fail('githost_refused', { about: 'the private key of the App cannot be read', cause })
  })
  const signature = await crypto.subtle.sign(RS256.name, key, new TextEncoder().encode(unsigned))
  return `${unsigned}.${Buffer.from(signature).toString('base64url')}`
}

const encodePart = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')

/** A settings file may have made spaces of the line breaks. GitHub issues PKCS#1, which WebCrypto cannot import. */
function readPkcs8(pem: string): Uint8Array<ArrayBuffer> {
  const [, label, base64 = ''] = pem.split('-----')
  const der = Buffer.from(base64, 'base64')
  return label === 'BEGIN RSA PRIVATE KEY' ? wrapPkcs1(der) : der
}

const SEQUENCE = 0x30
const OCTET_STRING = 0x04
/** Version 0, and the algorithm `rsaEncryption` without parameters. */
const PKCS8_HEAD = Buffer.from('020100300d06092a864886f70d0101010500', 'hex')

const wrapPkcs1 = (der: Uint8Array) => derElement(SEQUENCE, PKCS8_HEAD, derElement(OCTET_STRING, der))

/** Its length is two bytes: a key has more than 255, and less than 64 KiB. */
function derElement(tag: number, ...parts: Uint8Array[]) {
  const content = Buffer.concat(parts)
  const { byteLength } = content
  return Buffer.concat([Uint8Array.of(tag, 0x82, byteLength >> 8, byteLength), content])
}
