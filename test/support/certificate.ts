// Creates a self-signed certificate, valid for a day. Node can read certificates, but not write them.
import { generateKeyPairSync, sign } from 'node:crypto'

const encodeDer = (tag: number, ...parts: Uint8Array[]): Buffer => {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}
const encodeSequence = (...parts: Uint8Array[]) => encodeDer(0x30, ...parts)
const encodeBitString = (content: Uint8Array) => encodeDer(0x03, Buffer.from([0]), content)
const encodeObjectId = (hex: string) => encodeDer(0x06, Buffer.from(hex, 'hex'))
const encodeTime = (at: number) =>
  encodeDer(0x18, Buffer.from(`${new Date(at).toISOString().replace(/[-:T]|\..*/g, '')}Z`))

const DAY = 86_400_000
const VERSION_3 = encodeDer(0xa0, encodeDer(0x02, Buffer.from([2])))
const ECDSA_SHA256 = encodeSequence(encodeObjectId('2a8648ce3d040302'))
const COMMON_NAME = '550403'
const ALTERNATIVE_NAMES = '551d11'

export function makeCertificate(name: string): { key: string; cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const subject = encodeSequence(
    encodeDer(0x31, encodeSequence(encodeObjectId(COMMON_NAME), encodeDer(0x0c, Buffer.from(name)))),
  )
  const names = encodeDer(0x04, encodeSequence(encodeDer(0x82, Buffer.from(name))))
  const body = encodeSequence(
    VERSION_3,
    encodeDer(0x02, Buffer.from([1])),
    ECDSA_SHA256,
    subject,
    encodeSequence(encodeTime(Date.now() - DAY), encodeTime(Date.now() + DAY)),
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    encodeDer(0xa3, encodeSequence(encodeSequence(encodeObjectId(ALTERNATIVE_NAMES), names))),
  )
  const signed = encodeSequence(body, ECDSA_SHA256, encodeBitString(sign('sha256', body, privateKey)))
  const lines = signed
    .toString('base64')
    .match(/.{1,64}/g)!
    .join('\n')
  const cert = `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`
  return { key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), cert }
}
