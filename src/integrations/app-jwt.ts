// The private key of a GitHub App, and the short-lived word that it signs for itself.
import githubAppJwt from 'universal-github-app-jwt'
import { fail } from '../kernel/errors.ts'

/** What PKCS#8 says before an RSA key: version 0 and the algorithm. */
const RSA_ALGORITHM = Buffer.from('020100300d06092a864886f70d0101010500', 'hex')

/** A DER value: its tag, its length, itself. */
function encodeDer(tag: number, value: Buffer): Buffer {
  const { length } = value
  const bytes = Buffer.from(length.toString(16).padStart(length < 0x80 ? 2 : length < 0x100 ? 2 : 4, '0'), 'hex')
  return Buffer.concat([Buffer.from(length < 0x80 ? [tag] : [tag, 0x80 | bytes.length]), bytes, value])
}

/** GitHub hands out PKCS#1, which WebCrypto does not read: this puts it into its PKCS#8 envelope. */
export function toPkcs8(pem: string): string {
  const [, begun = '', text = ''] = pem.split('-----')
  const given = Buffer.from(text, 'base64')
  const whole = begun.startsWith('BEGIN RSA')
    ? encodeDer(0x30, Buffer.concat([RSA_ALGORITHM, encodeDer(0x04, given)]))
    : given
  const lines = whole.toString('base64').match(/.{1,64}/g) ?? []
  return ['-----BEGIN PRIVATE KEY-----', ...lines, '-----END PRIVATE KEY-----'].join('\n')
}

/** Good for ten minutes, for the App itself. */
export async function appJwt(id: string, privateKey: string): Promise<string> {
  try {
    return (await githubAppJwt({ id, privateKey: toPkcs8(privateKey) })).token
  } catch (cause) {
    throw fail('githost_refused', { about: 'its private key cannot be read', cause })
  }
}
