// Schemas of the renewal of grants: whether a person may still see a protected deployment.
import * as z from 'zod'
import { MAX_RENEWAL_LENGTH } from './access-rules.ts'
import { AgentId, Fence } from './sync-fields.schema.ts'
import { arrayOf, boundedText, Uuid } from './wire.ts'

export const MAX_ACCESS_RENEWALS = 20

const AccessRenewal = z.object({
  deployment_id: Uuid,
  host: boundedText(300).meta({ description: 'The host of the browser, with its port.' }),
  renewal: boundedText(MAX_RENEWAL_LENGTH).meta({ description: '`renewal` of the grant.' }),
})
export type AccessRenewal = z.output<typeof AccessRenewal>

export const AccessRenewals = z
  .object({ agent_id: AgentId, fence: Fence, renewals: arrayOf(AccessRenewal, MAX_ACCESS_RENEWALS, 1) })
  .meta({
    id: 'AccessRenewals',
    description: 'Grants of people whose pages stay open.',
    example: {
      agent_id: 'agent-1',
      fence: 1,
      renewals: [{ deployment_id: 'a3f5b0a2-6e0d-4c52-9a61-5d1f0c2b7e11', host: 'shop.example.com', renewal: '…' }],
    },
  })
export type AccessRenewals = z.output<typeof AccessRenewals>

export const RenewedAccess = z
  .object({
    renewed: z.array(z.boolean().nullable()).meta({
      description: 'For each, in order: whether the person may see it for 30 more minutes. Null: ask again later.',
    }),
  })
  .meta({ id: 'RenewedAccess' })
export type RenewedAccess = z.output<typeof RenewedAccess>
