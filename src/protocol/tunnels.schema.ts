// Schemas of tunnels: terminals, and ports that are forwarded, between clients and agents.
import * as z from 'zod'
import { AgentId, Fence } from './sync-fields.schema.ts'
import { arrayOf, boundedText, parseWholeNumber, Uuid } from './wire.ts'

const MAX_ARGUMENTS = 100
const MAX_ARGUMENT = 8192
const MAX_COPY = 1000

const side = z.int().min(1).max(1000)
export const Size = z.object({ columns: side, rows: side })
export type Size = z.output<typeof Size>

const Argument = boundedText(MAX_ARGUMENT).refine(text => !text.includes('\0'), { error: 'must not have a NUL' })
const copy = z.int().min(1).max(MAX_COPY).nullish().meta({
  description: 'The number of the copy, from 1. By default the first one that runs.',
})

export const NewTerminal = z
  .object({
    command: arrayOf(Argument, MAX_ARGUMENTS, 1).nullish().meta({
      description: 'A program and its arguments. By default a shell.',
    }),
    tty: z.boolean().default(true).meta({ description: 'Whether the command gets a terminal. Otherwise pipes.' }),
    columns: side.default(80),
    rows: side.default(24),
    copy,
  })
  .meta({
    id: 'NewTerminal',
    description: 'A command to run beside a copy of the deployment.',
    example: { command: ['sh', '-c', 'ls -l'], tty: false, columns: 80, rows: 24 },
  })
export type NewTerminal = z.output<typeof NewTerminal>

const stores = ['postgres', 'redis'] as const
export const NewForward = z
  .object({
    port: z.int().min(1).max(65_535).nullish().meta({
      description: 'A port that a copy listens on. By default the one in its PORT.',
    }),
    store: z.enum(stores).nullish().meta({
      description: 'The database or cache of the deployment, in place of a port of a copy.',
    }),
    snapshot_id: Uuid.nullish().meta({
      description: 'A snapshot of the deployment, in place of a port: each stream sends it as a tar, and ends.',
    }),
    copy,
  })
  .refine(({ port, store, copy, snapshot_id }) => snapshot_id == null || (port ?? store ?? copy) == null, {
    path: ['snapshot_id'],
    error: 'must be alone',
  })
  .refine(({ port, store }) => port == null || store == null, { path: ['store'], error: 'must not be beside `port`' })
  .refine(({ copy, store }) => copy == null || store == null, { path: ['store'], error: 'must not be beside `copy`' })
  .meta({
    id: 'NewForward',
    description: 'A port of a copy, or a store, to connect to.',
    example: { port: 8000 },
  })
export type NewForward = z.output<typeof NewForward>

export const Tunnel = z
  .object({
    id: Uuid,
    deployment_id: Uuid,
    url: z.string().meta({
      'x-credential': true,
      description: 'Open a WebSocket to this URL, once, before `expires_at`. No key is needed.',
    }),
    expires_at: z.string().meta({ format: 'date-time' }),
  })
  .meta({ id: 'Tunnel' })
export type Tunnel = z.output<typeof Tunnel>

export const TunnelRef = z.object({ tunnel_id: Uuid })
export const TunnelTicket = z.object({ ticket: boundedText(1000) })

/** A fence in a query. */
export const TunnelLease = z
  .object({ agent_id: AgentId, fence: z.preprocess(parseWholeNumber, Fence) })
  .meta({ example: { agent_id: 'agent-1', fence: '1' } })

/** A tunnel that waits for its agent, in the answer to a poll. */
export const WaitingTunnel = z.object({
  id: Uuid,
  deployment_id: Uuid,
  revision_id: Uuid,
  terminal: NewTerminal.nullable().meta({ description: 'Null for a forwarding.' }),
  forward: z
    .object({
      port: z.int().nullish(),
      store: z.enum(stores).nullish(),
      copy: z.int().nullish(),
      snapshot_id: Uuid.nullish(),
    })
    .nullable()
    .meta({ description: 'Null for a terminal.' }),
})
export type WaitingTunnel = z.output<typeof WaitingTunnel>
