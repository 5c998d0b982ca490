// The tools that this server offers. A tool is a name, a description, a schema of its arguments, and what it does with them.
import { createHash, randomUUID } from 'node:crypto'

const text = value => ({ content: [{ type: 'text', text: String(value) }] })

export const tools = [
  {
    name: 'echo',
    description: 'Says again what it is told.',
    inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    run: ({ text: said }) => text(said),
  },
  {
    name: 'now',
    description: 'The time, in UTC or in a time zone.',
    inputSchema: { type: 'object', properties: { time_zone: { type: 'string', description: 'Like Europe/Vienna.' } } },
    run: ({ time_zone: timeZone }) =>
      text(timeZone ? new Date().toLocaleString('sv-SE', { timeZone }) : new Date().toISOString()),
  },
  {
    name: 'digest',
    description: 'The SHA-256 of a text, in hexadecimal.',
    inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    run: ({ text: of }) => text(createHash('sha256').update(of).digest('hex')),
  },
  {
    name: 'uuid',
    description: 'A new random UUID.',
    inputSchema: { type: 'object', properties: {} },
    run: () => text(randomUUID()),
  },
]
