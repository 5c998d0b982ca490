// Schemas of the credentials that an agent clones, pulls and pushes with.
import * as z from 'zod'
import { AgentId, Fence, PublicKey, Sealed } from './sync-fields.schema.ts'
import { Uuid } from './wire.ts'

export const CredentialWish = z
  .object({
    agent_id: AgentId,
    fence: Fence,
    public_key: PublicKey,
    deployment_id: Uuid,
    revision_id: Uuid.meta({ description: 'For a repository, a revision of the source `githost`.' }),
    for: z
      .enum(['repository', 'registry'])
      .default('repository')
      .meta({
        description:
          '`repository`: to clone the source from its git host. ' +
          '`registry`: to pull and push images at the registry of this installation.',
      }),
  })
  .meta({
    id: 'CredentialWish',
    description: 'The revision that an agent is about to clone, pull or push.',
    example: {
      agent_id: 'agent-1',
      fence: 1,
      public_key: 'BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU',
      deployment_id: '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11',
      revision_id: '45c48cce-2e2d-4fbd-8a1a-c51c7c6ad26a',
    },
  })
export const GivenCredential = z
  .object({
    credential: Sealed.nullable().meta({
      description:
        'For a repository: sealed JSON `{"username": …, "password": …}` for git over HTTP, ' +
        'bound to `<listener>/<deployment>/<revision>/git`. The credential of a GitHub App is valid for an hour. ' +
        'Of a repository by SSH: `{"ssh": {"keys": …, "host_keys": …}}`, as `access` of a look; without `host_keys`, ' +
        'try again later. ' +
        'For the registry: sealed JSON with `registry`, `repository`, `username`, `password` and `expires_at`, ' +
        'bound to `<listener>/<deployment>/<revision>/registry`. Null if this installation has no registry.',
    }),
  })
  .meta({ id: 'GivenCredential' })
/** The sealed JSON for the registry. */
export const RegistryCredential = z.object({
  registry: z.string(),
  repository: z.string(),
  username: z.string(),
  password: z.string(),
  expires_at: z.iso.datetime(),
})
export type RegistryCredential = z.output<typeof RegistryCredential>
