// Schemas of the tokens by which applications call models.
import * as z from 'zod'
import { AgentId, Fence, PublicKey, Sealed } from './sync-fields.schema.ts'
import { arrayOf, Uuid } from './wire.ts'

/** Half a megabyte of tokens. */
export const MODEL_TOKENS_PAGE_SIZE = 1000

export const ModelTokenWish = z
  .object({
    agent_id: AgentId,
    fence: Fence,
    public_key: PublicKey,
    deployment_ids: arrayOf(Uuid, MODEL_TOKENS_PAGE_SIZE)
      .nullish()
      .meta({ description: 'Only these. Leave it out for all deployments of the listener.' }),
    after: Uuid.nullish().meta({ description: '`next` of the page before.' }),
  })
  .meta({
    id: 'ModelTokenWish',
    description: 'The deployments whose applications need a token.',
    example: {
      agent_id: 'agent-1',
      fence: 1,
      public_key: 'BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU',
    },
  })
export type ModelTokenWish = z.output<typeof ModelTokenWish>

export const GivenModelTokens = z
  .object({
    tokens: Sealed.nullable().meta({
      description:
        'Sealed JSON: an object of deployment ids and their tokens, bound to `<listener>/models`. Deployments that ' +
        'are not served by the listener have none. Null if this installation gives applications no tokens.',
    }),
    expires_at: z.string().meta({ format: 'date-time', description: 'When these tokens expire.' }),
    next: Uuid.nullable().meta({ description: 'There are more deployments. Send it as `after`.' }),
  })
  .meta({ id: 'GivenModelTokens' })
export type GivenModelTokens = z.output<typeof GivenModelTokens>
