// Actions on trusted issuers, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { Item, Me } from '../../api/client.ts'
import { explainMissing } from '../../api/permissions.ts'

export type TrustedIssuer = Item<'GET /v2/trusted-issuers'>
type Caller = { me: Me; workspace: string }

export type TrustedDraft = { name: string; issuer: string; subject: string; audience: string; role_id: string }

export function createTrustedIssuer({ me, workspace }: Caller, { audience, ...draft }: TrustedDraft): Action {
  return {
    label: 'Trust issuer',
    unavailable: explainMissing(me, workspace, 'workspaces:manage-keys'),
    request: request('POST /v2/trusted-issuers', { body: { ...draft, ...(audience && { audience }) } as never }),
    done: `Tokens of ${draft.name} can now be exchanged for keys.`,
  }
}

export function deleteTrustedIssuer({ me, workspace }: Caller, { id, name }: TrustedIssuer): Action {
  return {
    label: 'Delete trusted issuer',
    unavailable: explainMissing(me, workspace, 'api-keys:delete'),
    request: request('DELETE /v2/trusted-issuers/{trusted_issuer_id}', { params: { trusted_issuer_id: id } }),
    confirm: {
      title: `Delete “${name}”?`,
      body:
        'Tokens of this issuer are no longer exchanged, and the current keys of jobs are revoked immediately. ' +
        'Deploys in progress continue, but the jobs cannot follow them. The audit log keeps its entries.',
      isDestructive: true,
    },
    done: `“${name}” is no longer trusted.`,
  }
}
