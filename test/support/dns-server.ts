// A small DNS server on loopback, over UDP: it answers TXT questions from a table, with the faults that a test sets.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'

/** The texts of a name, or a fault. Other names do not exist. */
export type Zone = Record<string, string[] | 'silence' | 'garbage' | 'refused' | 'empty'>
const [NO_ERROR, NAME_ERROR, REFUSED] = [0, 3, 5]
const [TXT, IN] = [16, 1]

export async function startDnsServer(zone: Zone) {
  const socket = createSocket('udp4')
  let questions = 0
  socket.on('message', (query, { port, address }) => {
    questions++
    const { name, end } = readName(query, 12)
    const texts = zone[name.toLowerCase()]
    if (texts === 'silence') return
    if (texts === 'garbage') return void socket.send(Buffer.from('not a DNS message'), port, address)
    const records = Array.isArray(texts) ? texts : []
    const code = texts === 'refused' ? REFUSED : texts === undefined ? NAME_ERROR : NO_ERROR
    const header = Buffer.alloc(12)
    query.copy(header, 0, 0, 2)
    header.writeUInt16BE(0x8580 | code, 2)
    header.writeUInt16BE(1, 4)
    header.writeUInt16BE(records.length, 6)
    socket.send(Buffer.concat([header, query.subarray(12, end + 4), ...records.map(encodeAnswer)]), port, address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return {
    address: `127.0.0.1:${(socket.address() as AddressInfo).port}`,
    questions: () => questions,
    close: () => socket.close(),
  }
}

function readName(message: Buffer, at: number): { name: string; end: number } {
  const labels: string[] = []
  let end = at
  while (message[end]) {
    labels.push(message.toString('latin1', end + 1, end + 1 + message[end]!))
    end += 1 + message[end]!
  }
  return { name: labels.join('.'), end: end + 1 }
}

/** Refers to the question's name. A text is split into strings of at most 255 bytes. */
function encodeAnswer(text: string): Buffer {
  const strings = text.match(/.{1,255}/gs) ?? ['']
  const data = Buffer.concat(strings.flatMap(one => [Buffer.from([one.length]), Buffer.from(one, 'latin1')]))
  const head = Buffer.alloc(12)
  head.writeUInt16BE(0xc00c, 0)
  head.writeUInt16BE(TXT, 2)
  head.writeUInt16BE(IN, 4)
  head.writeUInt32BE(60, 6)
  head.writeUInt16BE(data.length, 10)
  return Buffer.concat([head, data])
}
