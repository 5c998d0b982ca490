// Makes a self-signed certificate for a name, valid for a day: Node can read certificates, but not write them.
import { generateKeyPairSync, sign } from 'node:crypto'

const tagged = (tag: number, ...parts: Uint8Array[]): Buffer => {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}
const sequence = (...parts: Uint8Array[]) => tagged(0x30, ...parts)
const bits = (content: Uint8Array) => tagged(0x03, Buffer.from([0]), content)
const id = (hex: string) => tagged(0x06, Buffer.from(hex, 'hex'))
const time = (at: number) => tagged(0x18, Buffer.from(`${new Date(at).toISOString().replace(/[-:T]|\..*/g, '')}Z`))

const DAY = 86_400_000
const VERSION_3 = tagged(0xa0, tagged(0x02, Buffer.from([2])))
const ECDSA_SHA256 = sequence(id('2a8648ce3d040302'))
const COMMON_NAME = '550403'
const ALTERNATIVE_NAMES = '551d11'

export function certificateFor(name: string): { key: string; cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const who = sequence(tagged(0x31, sequence(id(COMMON_NAME), tagged(0x0c, Buffer.from(name)))))
  const names = tagged(0x04, sequence(tagged(0x82, Buffer.from(name))))
  const body = sequence(
    ...[VERSION_3, tagged(0x02, Buffer.from([1])), ECDSA_SHA256, who],
    sequence(time(Date.now() - DAY), time(Date.now() + DAY)),
    ...[who, publicKey.export({ type: 'spki', format: 'der' })],
    tagged(0xa3, sequence(sequence(id(ALTERNATIVE_NAMES), names))),
  )
  const signed = sequence(body, ECDSA_SHA256, bits(sign('sha256', body, privateKey)))
  const lines = signed
    .toString('base64')
    .match(/.{1,64}/g)!
    .join('\n')
  const cert = `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`
  return { key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), cert }
}
