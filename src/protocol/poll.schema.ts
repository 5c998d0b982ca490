// A poll, what it brings, and how its lease ends.
import * as z from 'zod'
import { AgentId, Cursor, Digest, Fence, PublicKey } from './sync-fields.schema.ts'
import { Uuid } from './wire.ts'
import { Work } from './work.schema.ts'

export const MAX_POLL_SECONDS = 55
export const POLL_PAGE_SIZE = 50

export const Poll = z
  .object({
    agent_id: AgentId,
    version: z.string().max(64).nullish().meta({ description: 'The agent’s own version; the listener shows it.' }),
    public_key: PublicKey,
    fence: Fence.nullish().meta({
      description: 'That of the lease it holds; left out at the start, to ask for a new one.',
    }),
    cursor: Cursor.nullish().meta({
      description: 'That of the last answer that was applied whole. Left out: everything.',
    }),
    digest: Digest.nullish().meta({
      description: 'Of what the agent has. Where it differs though nothing changed, everything comes again.',
    }),
    wait: z
      .int()
      .min(0)
      .max(MAX_POLL_SECONDS)
      .default(0)
      .meta({ description: 'For how many seconds to wait for a change.' }),
  })
  .meta({
    id: 'Poll',
    description: 'What the agent is, and what it has.',
    example: {
      agent_id: 'agent-1',
      version: '1.0.0',
      public_key: 'BMWOPPT6fvI84CovNcaIsJEn0aiRnU30Qx4O_QXfkW-XP2qQAyULEqKYACUGYluyNPLiLmjuhjV11bQdp-b2qnk',
      cursor: null,
      digest: null,
      wait: 0,
    },
  })
export type Poll = z.output<typeof Poll>

export const Changes = z
  .object({
    listener_id: Uuid.meta({ description: 'The listener whose key asks.' }),
    lease: z
      .object({ fence: Fence, expires_at: z.string().meta({ format: 'date-time' }) })
      .meta({ description: 'It is the agent’s until then, and each poll renews it.' }),
    cursor: Cursor.meta({ description: 'Send it with the next poll, once the changes are applied.' }),
    digest: Digest.meta({
      description: 'Of all that the listener has to have. It says something when `more` is false.',
    }),
    resync: z.boolean().meta({
      description: 'The first page of everything: what is not named until `more` is false is not wanted any more.',
    }),
    more: z.boolean().meta({ description: 'There are further changes: poll again at once with this `cursor`.' }),
    changes: z
      .array(Work)
      .meta({ description: `In the order in which they came about, each deployment once, at most ${POLL_PAGE_SIZE}.` }),
  })
  .meta({ id: 'Changes', description: 'What is wanted now of the deployments that changed. Empty: nothing did.' })
export type Changes = z.output<typeof Changes>

export const Release = z.object({ agent_id: AgentId, fence: Fence }).meta({
  id: 'Release',
  description: 'The lease that an agent has no more use for.',
  example: { agent_id: 'agent-1', fence: 1 },
})
export type Release = z.output<typeof Release>
