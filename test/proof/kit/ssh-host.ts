// A host of one repository by SSH, in this process: it lets in deploy keys and lists refs, and serves no commits. Its
// side of RFC 4253 and 4252 has one algorithm of each kind, which every OpenSSH since 6.5 has, too.
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  verify,
} from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'

const MESSAGE = {
  disconnect: 1,
  serviceRequest: 5,
  serviceAccept: 6,
  kexInit: 20,
  newKeys: 21,
  ecdhInit: 30,
  ecdhReply: 31,
  authRequest: 50,
  authFailure: 51,
  authSuccess: 52,
  authKeyOk: 60,
  globalRequest: 80,
  requestFailure: 82,
  channelOpen: 90,
  channelConfirmation: 91,
  channelData: 94,
  channelEof: 96,
  channelClose: 97,
  channelRequest: 98,
  channelSuccess: 99,
  channelFailure: 100,
}
const VERSION = 'SSH-2.0-slipway_kit'
const KEY_TYPE = 'ssh-ed25519'
const CIPHER = 'aes256-gcm@openssh.com'
const ALGORITHMS = ['curve25519-sha256', KEY_TYPE, CIPHER, CIPHER, 'hmac-sha2-256', 'hmac-sha2-256', 'none', 'none']
const [TAG_BYTES, IV_BYTES, KEY_BYTES, BLOCK_BYTES, MIN_PADDING] = [16, 12, 32, 16, 4]
const MAX_PACKET_BYTES = 35_000
const WINDOW_BYTES = 1_000_000

type HostKey = { privateKey: KeyObject; line: string }

const uint32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
const field = (value: string | Uint8Array): Buffer => {
  const bytes = Buffer.from(value as string)
  return Buffer.concat([uint32(bytes.length), bytes])
}
/** A positive number of any length. */
const numberField = (bytes: Buffer): Buffer => {
  const start = bytes.findIndex(byte => byte !== 0)
  const digits = bytes.subarray(start)
  return field(digits[0]! >= 0x80 ? Buffer.concat([Buffer.alloc(1), digits]) : digits)
}
const sha256 = (...parts: Uint8Array[]) => createHash('sha256').update(Buffer.concat(parts)).digest()

/** Reads the members of a message one after the other. */
function createReader(bytes: Buffer, start = 1) {
  let at = start
  const take = (length: number) => {
    if (at + length > bytes.length) throw new Error('A message is cut.')
    at += length
    return bytes.subarray(at - length, at)
  }
  const number = () => take(4).readUInt32BE()
  const raw = () => take(number())
  return { number, raw, text: () => raw().toString('latin1'), flag: () => take(1)[0] !== 0, position: () => at }
}

/** The keys of X25519 and Ed25519 are 32 bytes, which Node takes as a JSON Web Key. */
const rawKeyOf = (key: KeyObject) => Buffer.from(key.export({ format: 'jwk' }).x as string, 'base64url')
const importKey = (crv: 'X25519' | 'Ed25519', raw: Buffer) =>
  createPublicKey({ key: { kty: 'OKP', crv, x: raw.toString('base64url') }, format: 'jwk' })

function createHostKey(): HostKey {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const blob = Buffer.concat([field(KEY_TYPE), field(rawKeyOf(publicKey))])
  return { privateKey, line: `${KEY_TYPE} ${blob.toString('base64')}` }
}

/** AES-GCM counts packets in the last eight bytes of its nonce. */
function createNonce(first: Buffer) {
  const nonce = Buffer.from(first)
  return () => {
    const current = Buffer.from(nonce)
    nonce.writeBigUInt64BE(BigInt.asUintN(64, nonce.readBigUInt64BE(4) + 1n), 4)
    return current
  }
}
type Cipher = { key: Buffer; nextNonce: () => Buffer }

/** Frames messages on a connection: plain at first, encrypted once `keys` are set. */
function createTransport(socket: Socket) {
  const keys: { sending?: Cipher; receiving?: Cipher } = {}
  let received = Buffer.alloc(0)

  function send(message: Buffer): void {
    const { sending } = keys
    // Without encryption, the length counts towards whole blocks.
    const missing = BLOCK_BYTES - ((1 + message.length + (sending ? 0 : 4)) % BLOCK_BYTES)
    const padding = missing < MIN_PADDING ? missing + BLOCK_BYTES : missing
    const body = Buffer.concat([Buffer.from([padding]), message, randomBytes(padding)])
    const length = uint32(body.length)
    if (!sending) return void socket.write(Buffer.concat([length, body]))
    const cipher = createCipheriv('aes-256-gcm', sending.key, sending.nextNonce()).setAAD(length)
    const sealed = Buffer.concat([cipher.update(body), cipher.final()])
    socket.write(Buffer.concat([length, sealed, cipher.getAuthTag()]))
  }
  /** The next whole message, if it has arrived. */
  function next(): Buffer | undefined {
    if (received.length < 4) return undefined
    const length = received.readUInt32BE()
    if (length > MAX_PACKET_BYTES) throw new Error('A packet is too long.')
    const { receiving } = keys
    const end = 4 + length + (receiving ? TAG_BYTES : 0)
    if (received.length < end) return undefined
    let body = received.subarray(4, 4 + length)
    if (receiving) {
      const cipher = createDecipheriv('aes-256-gcm', receiving.key, receiving.nextNonce())
        .setAAD(received.subarray(0, 4))
        .setAuthTag(received.subarray(4 + length, end))
      body = Buffer.concat([cipher.update(body), cipher.final()])
    }
    received = received.subarray(end)
    return body.subarray(1, body.length - body[0]!)
  }
  /** The first line that the client sends. */
  function takeLine(): string | undefined {
    const end = received.indexOf('\n')
    if (end < 0) return undefined
    const line = received.toString('latin1', 0, end).trimEnd()
    received = received.subarray(end + 1)
    return line
  }
  const push = (bytes: Buffer) => {
    received = Buffer.concat([received, bytes])
  }
  return { keys, send, next, takeLine, push }
}

type Answers = {
  hostKey: HostKey
  /** True for a key with which clients may enter. */
  admits: (publicKey: string) => boolean
  /** The output of a command that a client runs. */
  answer: (command: string) => Buffer
}

function serveClient(socket: Socket, { hostKey, admits, answer }: Answers): void {
  const transport = createTransport(socket)
  const { send } = transport
  const ownInit = Buffer.concat([
    Buffer.from([MESSAGE.kexInit]),
    randomBytes(16),
    ...[...ALGORITHMS, '', ''].map(field),
    Buffer.alloc(5),
  ])
  let clientVersion: string | undefined
  let clientInit = Buffer.alloc(0)
  let sessionId: Buffer | undefined
  let pendingReceiving: Cipher | undefined

  function exchangeKeys(message: Buffer): void {
    const clientKey = createReader(message).raw()
    const { privateKey, publicKey } = generateKeyPairSync('x25519')
    const ownKey = rawKeyOf(publicKey)
    const secret = numberField(diffieHellman({ privateKey, publicKey: importKey('X25519', clientKey) }))
    const blob = Buffer.from(hostKey.line.split(' ')[1]!, 'base64')
    const hash = sha256(
      ...[clientVersion!, VERSION].map(field),
      ...[clientInit, ownInit, blob, clientKey, ownKey].map(field),
      secret,
    )
    sessionId ??= hash
    const signature = Buffer.concat([field(KEY_TYPE), field(sign(null, hash, hostKey.privateKey))])
    send(Buffer.concat([Buffer.from([MESSAGE.ecdhReply]), ...[blob, ownKey, signature].map(field)]))
    send(Buffer.from([MESSAGE.newKeys]))
    const derive = (letter: string, length: number) =>
      sha256(secret, hash, Buffer.from(letter), sessionId!).subarray(0, length)
    const cipherOf = (nonce: string, key: string): Cipher => ({
      key: derive(key, KEY_BYTES),
      nextNonce: createNonce(derive(nonce, IV_BYTES)),
    })
    transport.keys.sending = cipherOf('B', 'D')
    pendingReceiving = cipherOf('A', 'C')
  }

  function authenticate(message: Buffer): void {
    const answered = findAuthAnswer(message)
    send(answered ?? Buffer.concat([Buffer.from([MESSAGE.authFailure]), field('publickey'), Buffer.alloc(1)]))
  }
  /** Undefined for a client that may not enter. */
  function findAuthAnswer(message: Buffer): Buffer | undefined {
    const reader = createReader(message)
    const [, , method] = [reader.text(), reader.text(), reader.text()]
    if (method !== 'publickey') return undefined
    const isSigned = reader.flag()
    const [algorithm, blob] = [reader.text(), reader.raw()]
    if (algorithm !== KEY_TYPE || !admits(`${KEY_TYPE} ${blob.toString('base64')}`)) return undefined
    if (!isSigned) return Buffer.concat([Buffer.from([MESSAGE.authKeyOk]), field(algorithm), field(blob)])
    const signed = Buffer.concat([field(sessionId!), message.subarray(0, reader.position())])
    const [signature, key] = [createReader(reader.raw(), 0), createReader(blob, 0)]
    // Both begin with the name of the algorithm.
    signature.raw()
    key.raw()
    const isValid = verify(null, signed, importKey('Ed25519', key.raw()), signature.raw())
    return isValid ? Buffer.from([MESSAGE.authSuccess]) : undefined
  }

  let clientChannel = 0
  const ofChannel = (type: number, ...parts: Buffer[]) =>
    send(Buffer.concat([Buffer.from([type]), uint32(clientChannel), ...parts]))
  function openChannel(message: Buffer): void {
    const reader = createReader(message)
    reader.raw()
    clientChannel = reader.number()
    ofChannel(MESSAGE.channelConfirmation, uint32(0), uint32(WINDOW_BYTES), uint32(MAX_PACKET_BYTES - 1000))
  }
  function requestOfChannel(message: Buffer): void {
    const reader = createReader(message)
    reader.number()
    const [type, wantsReply] = [reader.text(), reader.flag()]
    if (wantsReply) ofChannel(type === 'exec' ? MESSAGE.channelSuccess : MESSAGE.channelFailure)
    if (type === 'exec') ofChannel(MESSAGE.channelData, field(answer(reader.text())))
  }
  function endChannel(): void {
    ofChannel(MESSAGE.channelRequest, field('exit-status'), Buffer.alloc(1), uint32(0))
    ofChannel(MESSAGE.channelEof)
    ofChannel(MESSAGE.channelClose)
  }

  const handlers: Record<number, (message: Buffer) => void> = {
    [MESSAGE.kexInit]: message => {
      clientInit = Buffer.from(message)
      if (sessionId) send(ownInit)
    },
    [MESSAGE.ecdhInit]: exchangeKeys,
    [MESSAGE.newKeys]: () => {
      transport.keys.receiving = pendingReceiving!
    },
    [MESSAGE.serviceRequest]: message =>
      send(Buffer.concat([Buffer.from([MESSAGE.serviceAccept]), field(createReader(message).raw())])),
    [MESSAGE.authRequest]: authenticate,
    [MESSAGE.globalRequest]: message => {
      const reader = createReader(message)
      reader.raw()
      if (reader.flag()) send(Buffer.from([MESSAGE.requestFailure]))
    },
    [MESSAGE.channelOpen]: openChannel,
    [MESSAGE.channelRequest]: requestOfChannel,
    // The flush with which a client ends that wants no commits.
    [MESSAGE.channelData]: endChannel,
    [MESSAGE.disconnect]: () => socket.end(),
  }
  socket.write(`${VERSION}\r\n`)
  send(ownInit)
  socket.on('error', () => {})
  socket.on('data', bytes => {
    transport.push(bytes)
    try {
      clientVersion ??= transport.takeLine()
      if (clientVersion === undefined) return
      for (let message = transport.next(); message; message = transport.next()) handlers[message[0]!]?.(message)
    } catch {
      socket.destroy()
    }
  })
}

const line = (text: string) => `${(text.length + 4).toString(16).padStart(4, '0')}${text}`
/** The first answer of `git-upload-pack`: its refs, and what HEAD is. */
function advertise(refs: Record<string, string>): Buffer {
  const head = refs['refs/heads/main']!
  const lines = Object.entries(refs).map(([name, sha]) => line(`${sha} ${name}\n`))
  return Buffer.from(`${line(`${head} HEAD\0symref=HEAD:refs/heads/main agent=kit\n`)}${lines.join('')}0000`)
}

export type SshHost = Awaited<ReturnType<typeof startSshHost>>

/** `refs` by their full names, with `refs/heads/main`. */
export async function startSshHost(refs: Record<string, string>) {
  let hostKey = createHostKey()
  let admitted: string | undefined
  const offered: string[] = []
  const sockets = new Set<Socket>()
  const admits = (key: string) => {
    offered.push(key)
    return key === admitted
  }
  const server: Server = createServer(socket => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    serveClient(socket, { hostKey, admits, answer: () => advertise(refs) })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `ssh://git@127.0.0.1:${(server.address() as AddressInfo).port}/kit.git`,
    refs,
    /** The keys with which clients tried to enter. */
    offered,
    hostKey: () => hostKey.line,
    changeHostKey() {
      hostKey = createHostKey()
    },
    /** A line of `authorized_keys`. */
    admit(publicKey: string) {
      admitted = publicKey.split(' ').slice(0, 2).join(' ')
    },
    async stop() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
