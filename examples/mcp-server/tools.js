// The tools of this server. Each has a name, a description, a schema of its arguments and a function.
import { createHash, randomUUID } from 'node:crypto'

const text = value => ({ content: [{ type: 'text', text: String(value) }] })

export const tools = [
  {
    name: 'echo',
    description: 'Returns the text it receives.',
    inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    run: ({ text: input }) => text(input),
  },
  {
    name: 'now',
    description: 'Returns the current time in UTC or in a time zone.',
    inputSchema: {
      type: 'object',
      properties: { time_zone: { type: 'string', description: 'For example Europe/Vienna.' } },
    },
    run: ({ time_zone: timeZone }) =>
      text(timeZone ? new Date().toLocaleString('sv-SE', { timeZone }) : new Date().toISOString()),
  },
  {
    name: 'digest',
    description: 'Returns the SHA-256 of a text in hexadecimal.',
    inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    run: ({ text: input }) => text(createHash('sha256').update(input).digest('hex')),
  },
  {
    name: 'uuid',
    description: 'Returns a new random UUID.',
    inputSchema: { type: 'object', properties: {} },
    run: () => text(randomUUID()),
  },
]
