import { Buffer } from 'node:buffer'
import { expect, it } from 'vitest'
import { createDeployKey, encodeDeployKey, fingerprintOf } from '../../src/kernel/crypto/openssh-key.ts'

/** The first pair of RFC 8032. ssh-keygen reads this file, and shows the same public key and fingerprint. */
const SEED = '9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60'
const PUBLIC = 'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a'
const FILE = `-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACDXWpgBgrEKt9VL/tPJZAc6DuFy89qmIyWvAhpo9wdRGgAAAJABAgMEAQID
BAAAAAtzc2gtZWQyNTUxOQAAACDXWpgBgrEKt9VL/tPJZAc6DuFy89qmIyWvAhpo9wdRGg
AAAECdYbGd7/1aYLqESvSS7CzEREnFaXsyaRlwO6wDHK5/YNdamAGCsQq31Uv+08lkBzoO
4XLz2qYjJa8CGmj3B1EaAAAAB3NsaXB3YXkBAgMEBQY=
-----END OPENSSH PRIVATE KEY-----
`

it('writes a key file as OpenSSH does', () => {
  const [seed, key] = [SEED, PUBLIC].map(hex => Buffer.from(hex, 'hex')) as [Buffer, Buffer]
  expect(encodeDeployKey(seed, key, Buffer.from([1, 2, 3, 4]), 'slipway')).toEqual({
    private_key: FILE,
    public_key: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea',
    fingerprint: 'SHA256:bbXpuKG6zhzdmnxq256TlqzFBzRl2f6OOg722cYNbU8',
  })
})

it('makes another key each time', async () => {
  const [one, other] = await Promise.all([createDeployKey('a'), createDeployKey('a')])
  expect(one.public_key).not.toBe(other.public_key)
  expect(fingerprintOf(one.public_key)).toBe(one.fingerprint)
})

it('knows no fingerprint of what is no key, or names another type than its own', () => {
  for (const text of ['', 'ssh-ed25519', 'ssh-ed25519 AAAA', 'ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv'])
    expect(fingerprintOf(text)).toBeNull()
})
