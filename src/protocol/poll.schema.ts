// Schemas of a poll, its answer, and the release of the lease.
import * as z from 'zod'
import { OfferedDrains } from './drains.schema.ts'
import { JobWork } from './jobs.schema.ts'
import { ListenerPolicy } from './listener-policy.ts'
import { GrantIssuer } from './protection.schema.ts'
import { LOOKS_PER_POLL, RepositoryLook } from './repository-looks.schema.ts'
import { AgentId, Cursor, Digest, Fence, PublicKey } from './sync-fields.schema.ts'
import { WaitingTunnel } from './tunnels.schema.ts'
import { arrayOf, boundedText, recordOf, Uuid } from './wire.ts'
import { Work } from './work.schema.ts'

export const MAX_POLL_SECONDS = 55
export const POLL_PAGE_SIZE = 50
const MAX_TEMPLATES = 1000

export const Poll = z
  .object({
    agent_id: AgentId,
    version: z.string().max(64).nullish().meta({ description: 'The version of the agent, which the listener shows.' }),
    templates: arrayOf(boundedText(128).min(1), MAX_TEMPLATES)
      .nullish()
      .meta({
        description:
          'The names of the templates that the agent offers. With them, a deployment of another template is refused ' +
          'at its creation. Leave it out to keep those of the last poll that had them.',
      }),
    template_descriptions: recordOf(boundedText(128).min(1), boundedText(256), MAX_TEMPLATES)
      .nullish()
      .meta({ description: 'What the templates are, by name: a sentence each.' }),
    policy: ListenerPolicy.nullish().meta({
      description:
        'What the agent allows deployments to ask for, with the poll that acquires the lease. The control plane then ' +
        'refuses the rest when it is planned. Without it, only the agent refuses.',
    }),
    public_key: PublicKey,
    fence: Fence.nullish().meta({
      description: 'The fence of the lease that the agent holds. Leave it out to acquire a lease.',
    }),
    cursor: Cursor.nullish().meta({
      description: 'The cursor of the last answer that was applied completely. Leave it out to get everything.',
    }),
    digest: Digest.nullish().meta({
      description:
        'The digest of what the agent has. If it is wrong although nothing changed, everything is sent again.',
    }),
    drains: boundedText(64)
      .nullish()
      .meta({
        description:
          'The digest of the drains that the agent has, at first any text. Leave it out to get none: lines and ' +
          'metrics then go to the control plane alone.',
      }),
    control_plane_url: z
      .url({ protocol: /^https?$/ })
      .max(2048)
      .nullish()
      .meta({
        description:
          'This API as the applications of the agent reach it, for their traces and calls of models. Leave it out if ' +
          'that is its public URL. Null if they do not reach it: they then get nothing for either.',
      }),
    verified_hosts_only: z
      .boolean()
      .nullish()
      .meta({
        description:
          'The agent serves hosts in public: send it no custom URL before its host is verified, also if the listener ' +
          'is of one workspace.',
      }),
    wait: z.int().min(0).max(MAX_POLL_SECONDS).default(0).meta({ description: 'Seconds to wait for a change.' }),
  })
  .meta({
    id: 'Poll',
    description: 'The agent, and what it has.',
    example: {
      agent_id: 'agent-1',
      version: '0.2.0',
      templates: ['web-service'],
      template_descriptions: { 'web-service': 'A JSON API with a health check.' },
      policy: { privileged: false, service_accounts: [], max_copies: 32 },
      public_key: 'BMWOPPT6fvI84CovNcaIsJEn0aiRnU30Qx4O_QXfkW-XP2qQAyULEqKYACUGYluyNPLiLmjuhjV11bQdp-b2qnk',
      cursor: null,
      digest: null,
      wait: 0,
    },
  })
export type Poll = z.output<typeof Poll>

export const Changes = z
  .object({
    listener_id: Uuid.meta({ description: 'The listener of the key.' }),
    lease: z
      .object({ fence: Fence, expires_at: z.string().meta({ format: 'date-time' }) })
      .meta({ description: 'The agent’s lease. Each poll renews it.' }),
    cursor: Cursor.meta({ description: 'Send it with the next poll, after the changes are applied.' }),
    digest: Digest.meta({
      description: 'The digest of everything that the listener serves. Compare it when `more` is false.',
    }),
    resync: z.boolean().meta({
      description: 'The first page of everything: remove deployments that are not listed until `more` is false.',
    }),
    keep_unknown: z
      .boolean()
      .optional()
      .meta({
        description:
          'The control plane was restored from a backup: leave deployments alone that it does not list, until this ' +
          'is false again.',
      }),
    models_url: z
      .string()
      .nullish()
      .meta({
        description:
          'The address below which applications call models. Null if they get no tokens for it: because of the ' +
          'settings of this installation, or because they do not reach it.',
      }),
    grants: GrantIssuer.nullish().meta({
      description: 'How to verify that a person may see a protected deployment. Keep it while this API is away.',
    }),
    tunnels: z
      .array(WaitingTunnel)
      .optional()
      .meta({
        description:
          'Terminals and forwarded ports whose clients wait for the agent, if its policy offers them. Each may come ' +
          'again until the agent has joined.',
      }),
    looks: z
      .array(RepositoryLook)
      .optional()
      .meta({
        description:
          'Repositories to look at now, of deployments that the agent runs, if its policy has the feature `git_ssh`: ' +
          `at most ${LOOKS_PER_POLL}. Each may come again after two minutes without a report.`,
      }),
    drains: OfferedDrains.optional().meta({
      description: 'All drains, if their digest is not that of the poll. Others are gone, with what waits for them.',
    }),
    more: z.boolean().meta({ description: 'There are more changes. Poll again at once with this `cursor`.' }),
    changes: z
      .array(Work)
      .meta({ description: `In the order of the changes, each deployment once, at most ${POLL_PAGE_SIZE}.` }),
    jobs: z
      .array(JobWork)
      .optional()
      .meta({
        description:
          'The jobs that are to be started or stopped, and with `resync` all that have not ended. Absent in earlier ' +
          'versions of the control plane.',
      }),
  })
  .meta({ id: 'Changes', description: 'The deployments that changed, as they are wanted now.' })
export type Changes = z.output<typeof Changes>

export const Release = z.object({ agent_id: AgentId, fence: Fence }).meta({
  id: 'Release',
  description: 'The lease to release.',
  example: { agent_id: 'agent-1', fence: 1 },
})
export type Release = z.output<typeof Release>
